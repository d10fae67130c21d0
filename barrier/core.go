package barrier

import (
	"errors"
	"fmt"
)

// Counters counts what a Core did and received, with one counter for each reason why a message had no effect.
type Counters struct {
	Epochs             uint64 `help:"epochs ended"`
	ArrivesSent        uint64 `help:"arrivals sent"`
	ReleasesSent       uint64 `help:"releases sent"`
	Early              uint64 `help:"arrivals from a rank that entered before this one did"`
	Duplicate          uint64 `help:"arrivals from a rank that had arrived in this epoch"`
	Late               uint64 `help:"messages of an epoch that this rank has left"`
	WrongRank          uint64 `help:"messages refused: not from a neighbour, or not for this rank"`
	WrongKind          uint64 `help:"messages refused: the sender may not send that kind here"`
	ImpossibleEpochs   uint64 `count:"ahead" help:"messages refused: an epoch that the sender cannot have reached"`
	Queries            uint64 `help:"queries answered"`
	RepliesHandled     uint64 `count:"replies" help:"replies received or passed on"`
	UnsolicitedReplies uint64 `count:"unasked" help:"replies to a question that is no longer open"`
}

// Actions is what a step of the core asks of its caller: send the messages in Send in order, and wake Enter if
// Released. The caller owns it, empties it and may use it again; the core only appends.
type Actions struct {
	Send     []Message
	Released bool
}

// An algorithm is how the ranks of a barrier inform each other: bracket or dissemination. It holds one rank's state;
// the Core holds what both algorithms share, and passes itself to each call.
type algorithm interface {
	// adjacent reports whether two ranks send each other messages.
	adjacent(a, b int) bool
	// maxMessages is the most messages that this rank sends in an epoch.
	maxMessages() int
	// beginEpoch begins an epoch of the core that no rank has entered.
	beginEpoch(c *Core)
	// enter continues the epoch after this rank has entered.
	enter(c *Core, a *Actions)
	// senderIndex returns the child or round that an arrival or a release belongs to, or what is wrong with it.
	senderIndex(m Message) (place int, wrong string)
	// accept takes the message of a child or round, for this epoch or a later one.
	accept(c *Core, m Message, place int, now int64, a *Actions) error
	// waitsFor returns the ranks that this rank waits for directly, inside an epoch.
	waitsFor() []int

	// extendPath returns the path of a query that this rank passes on.
	extendPath(path uint16) uint16
	// hasSent reports whether this rank has sent what the sender of a query waits for.
	hasSent(query Message) bool
	// mayLieBehind reports whether a rank may lie behind the sender of a reply about that rank.
	mayLieBehind(rank, from int) bool
	// validQuery reports whether a query of this origin can reach this rank through its sender.
	validQuery(query Message) bool
	// replyRoute returns the rank to which this rank passes a reply, unless the reply is for this rank. It reports false
	// for a reply that cannot come this way.
	replyRoute(reply Message) (next int, ok bool)
}

// Core is one rank's part of a barrier: a step function without I/O, goroutines or clock. Steps that need the time get
// it as µs of a clock that never goes back. Its algorithm holds at most one bit for each neighbour, whatever N is.
type Core struct {
	// Immutable after NewCore.
	algorithm   algorithm
	kind        Kind
	n, rank     int
	epochStride uint64 // between its epochs; above 1 where several cores share the epochs

	// Owned by the caller, one step at a time.
	epoch         uint64    // the epoch to enter next, or entered and not left
	epochEntered  bool      // epoch has been entered
	entries       entrySet  // entries of this rank and of the ranks that its messages speak for
	offer         uint32    // of this rank, for the epochs that it enters from now on
	lastStraggler Straggler // of the previous epoch
	inquiring     bool      // after a time-out in this epoch: replies are collected
	reports       []report  // from the replies
	counters      *Counters // of all cores of a barrier
}

// NewCore returns the core of the given rank of n, before epoch 0. It fails for an unknown kind, for n outside
// 1..maxRanks, and for a rank outside 0..n-1.
func NewCore(kind Kind, n, rank int) (*Core, error) {
	if int(kind) >= len(Kinds) {
		return nil, fmt.Errorf("barrier %s is unknown", kind)
	}
	if n < 1 || n > maxRanks {
		return nil, fmt.Errorf("a barrier of %d ranks is impossible: it can have 1 to %d", n, maxRanks)
	}
	if rank < 0 || rank >= n {
		return nil, fmt.Errorf("rank %d is not in a barrier of %d ranks", rank, n)
	}
	return newCore(kind, n, rank), nil
}

// newCore is NewCore for values that are known to be valid.
func newCore(kind Kind, n, rank int) *Core {
	c := &Core{
		kind:          kind,
		n:             n,
		rank:          rank,
		epochStride:   1,
		lastStraggler: Straggler{Rank: Nobody},
		counters:      &Counters{},
	}
	if kind == Dissemination {
		c.algorithm = newDissemination(n, rank)
	} else {
		c.algorithm = newBracket(kind, n, rank)
	}
	c.beginEpoch(0)
	return c
}

// beginEpoch begins an epoch that no rank has entered.
func (c *Core) beginEpoch(epoch uint64) {
	c.epoch = epoch
	c.epochEntered = false
	c.algorithm.beginEpoch(c)
	c.entries = emptySet()
	c.inquiring = false
	c.reports = c.reports[:0]
}

// currentEpoch is the epoch to enter next, or the one that this rank waits in.
func (c *Core) currentEpoch() uint64 { return c.epoch }

// enter enters this rank's present epoch. a.Released says that the epoch ended at once: this rank waits for none, or
// all others have entered.
func (c *Core) enter(epoch uint64, now int64, a *Actions) error {
	if epoch != c.epoch || c.epochEntered {
		return &enterError{
			Rank:           c.rank,
			Requested:      epoch,
			Epoch:          c.epoch,
			AlreadyEntered: c.epochEntered,
		}
	}
	c.epochEntered = true
	c.entries.merge(singleEntry(c.rank, now, c.offer))
	c.algorithm.enter(c, a)
	return nil
}

// Enter enters this rank's present epoch, which it must not have entered yet. It is for a caller that keeps its own
// time and has at most one epoch open; a run uses a Barrier.
func (c *Core) Enter(now int64, a *Actions) error { return c.enter(c.epoch, now, a) }

// send sends an arrival or a release.
func (c *Core) send(kind messageKind, to int, lag Lag, a *Actions) {
	m := c.message(kind, to, c.epoch)
	m.Lag = lag
	a.Send = append(a.Send, m)
	if kind == kindArrive {
		c.counters.ArrivesSent++
	} else {
		c.counters.ReleasesSent++
	}
}

// leaveEpoch ends the epoch, with its straggler.
func (c *Core) leaveEpoch(last Straggler, a *Actions) {
	c.lastStraggler = last
	c.counters.Epochs++
	c.beginEpoch(c.epoch + c.epochStride)
	a.Released = true
}

// setOffer sets this rank's offer for the epochs that it enters from now on: a number, of which all ranks learn the
// smallest (Straggler.MinOffer). Before the first setOffer it is 0.
func (c *Core) setOffer(n uint32) { c.offer = n }

// Receive takes a message from a neighbour. Late and duplicated messages are counted and change nothing; a message that
// breaks the protocol gives a *messageError and changes only its counter.
func (c *Core) Receive(m Message, now int64, a *Actions) error {
	from := int(m.From)
	if int(m.To) != c.rank {
		return c.refuse(m, errWrongRank, "it is for another rank")
	}
	if from >= c.n || !c.algorithm.adjacent(from, c.rank) {
		return c.refuse(m, errWrongRank, "the sender is no neighbour in this barrier")
	}
	if int(m.Lag.LastRank) >= c.n {
		return c.refuse(m, errWrongRank, "the last rank that it names is not in this barrier")
	}
	switch m.Kind {
	case kindArrive, kindRelease:
		return c.receiveArrival(m, now, a)
	case kindQuery:
		return c.answerQuery(m, a)
	case kindReply:
		return c.handleReply(m, a)
	}
	return c.refuse(m, errWrongKind, "the kind is unknown")
}

// receiveArrival takes an arrival or a release.
func (c *Core) receiveArrival(m Message, now int64, a *Actions) error {
	place, wrong := c.algorithm.senderIndex(m)
	if wrong != "" {
		return c.refuse(m, errWrongKind, wrong)
	}
	if m.Epoch < c.epoch {
		c.counters.Late++
		return nil
	}
	return c.algorithm.accept(c, m, place, now, a)
}

// refuse counts and describes a message that breaks the protocol.
func (c *Core) refuse(m Message, reason error, detail string) error {
	switch {
	case errors.Is(reason, errWrongRank):
		c.counters.WrongRank++
	case errors.Is(reason, errWrongKind):
		c.counters.WrongKind++
	case errors.Is(reason, errImpossibleEpoch):
		c.counters.ImpossibleEpochs++
	}
	return &messageError{
		Rank:    c.rank,
		Epoch:   c.epoch,
		Message: m,
		Reason:  reason,
		Detail:  detail,
	}
}

func (c *Core) message(kind messageKind, to int, epoch uint64) Message {
	return Message{
		Kind:  kind,
		From:  uint16(c.rank),
		To:    uint16(to),
		Epoch: epoch,
	}
}
