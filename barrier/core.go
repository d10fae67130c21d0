package barrier

import (
	"errors"
	"fmt"
)

// Counters counts what a Core did and what it was sent, one counter for each
// reason for which a message had no effect.
type Counters struct {
	Epochs       uint64 // epochs left
	ArrivesSent  uint64
	ReleasesSent uint64
	Early        uint64 // arrivals from a rank that entered before this one did
	Duplicate    uint64 // arrivals from a rank that had arrived in this epoch
	Late         uint64 // messages of an epoch that was left already
	WrongRank    uint64 // refused: not from a neighbour, or not for this rank
	WrongKind    uint64 // refused: the sender may not send that kind here
	Ahead        uint64 // refused: an epoch the sender cannot have reached
	Queries      uint64 // queries answered
	Replies      uint64 // replies taken or passed on
	Unasked      uint64 // replies to a question that is no longer open
}

// Actions is what a step of the core asks of its caller: send Send in order,
// and let the caller of Enter go on if Released. The caller owns it, empties it
// and may use it again; the core only appends.
type Actions struct {
	Send     []Message
	Released bool
}

// Core is one rank's part of a barrier: a step function without I/O,
// goroutines or clock; steps that need the time are given it, as µs of a clock
// that never goes back. It holds its own place in the tree and one bit for each
// child, whatever N is; dissemination.go has its own argument.
//
// Why one bit is enough, that is, why a peer is at most one epoch ahead: a
// child sends Arrive(e+1) only after Release(e) from this rank, and this rank
// sends Release(e) only after it left e itself. A parent sends Release(e) only
// after Arrive(e) from this rank. So, whatever the network does to the order,
// an arrival is for the epoch this rank stands at, or a copy of an older one.
type Core struct {
	// Immutable after NewCore.
	tree     tree // of the kinds that have one
	ring     ring // of dissemination
	rank     int
	parent   int // noParent for the root, and where there is no tree
	children int
	rounds   int // of dissemination, else 0

	// Owned by the caller, one step at a time.
	epoch    uint64   // the epoch to be entered next, or entered and not left
	inside   bool     // epoch has been entered
	awaited  int      // children that have not arrived in epoch
	arrived  []uint64 // bit i: child i has arrived in epoch
	round    int      // signals taken in epoch, in the order of the rounds
	heard    [2]heard // of epoch and of the next one; even epochs first
	entered  part     // this rank, and those its messages in epoch speak for
	held     Held     // who held the epoch before
	asking   bool     // a time-out struck in epoch: replies are collected
	reports  []Report // what the replies said
	counters Counters
}

// NewCore returns the core of the given rank of n, standing before epoch 0. It
// fails on an unknown kind, on n outside 1..MaxRanks and on a rank outside 0..n-1.
func NewCore(kind Kind, n, rank int) (*Core, error) {
	if int(kind) >= len(Kinds) {
		return nil, fmt.Errorf("barrier %s is unknown", kind)
	}
	if n < 1 || n > MaxRanks {
		return nil, fmt.Errorf("a barrier of %d ranks is impossible, it takes 1 to %d", n, MaxRanks)
	}
	if rank < 0 || rank >= n {
		return nil, fmt.Errorf("rank %d is not in a barrier of %d ranks", rank, n)
	}
	t := tree{kind: kind, n: n}
	c := &Core{tree: t, ring: ring{n}, rank: rank, parent: t.parent(rank), children: t.children(rank)}
	if kind == Dissemination {
		c.rounds = c.ring.rounds()
	}
	c.arrived = make([]uint64, (c.children+63)/64)
	c.Reset(0)
	return c, nil
}

// Reset puts the core before firstEpoch, forgetting what has arrived. The
// counters go on. See the package comment for when it may be called.
func (c *Core) Reset(firstEpoch uint64) {
	c.heard[0].rounds, c.heard[1].rounds = 0, 0
	c.held = Held{Rank: Nobody}
	c.stand(firstEpoch)
}

// stand begins an epoch that nobody has entered.
func (c *Core) stand(epoch uint64) {
	c.epoch = epoch
	c.inside = false
	c.awaited = c.children
	clear(c.arrived)
	c.round = 0
	c.heard[(epoch+1)&1].rounds = 0
	c.entered = nobodyYet()
	c.asking = false
	c.reports = c.reports[:0]
}

// Kind returns the kind of this barrier.
func (c *Core) Kind() Kind { return c.tree.kind }

// N returns the number of ranks.
func (c *Core) N() int { return c.tree.n }

// Rank returns this rank.
func (c *Core) Rank() int { return c.rank }

// Epoch returns the epoch to be entered next or, if Inside, waited in.
func (c *Core) Epoch() uint64 { return c.epoch }

// Inside reports whether Epoch was entered and not yet left.
func (c *Core) Inside() bool { return c.inside }

// Held tells who held the epoch that was left last.
func (c *Core) Held() Held { return c.held }

// Counters returns a copy of the counters.
func (c *Core) Counters() Counters { return c.counters }

// Enter enters the epoch this rank stands at. a.Released tells that the epoch
// ended at once: there is nobody to wait for, or all others are waiting.
func (c *Core) Enter(epoch uint64, now int64, a *Actions) error {
	if epoch != c.epoch || c.inside {
		return &EnterError{Rank: c.rank, Asked: epoch, Epoch: c.epoch, Inside: c.inside}
	}
	c.inside = true
	c.entered.merge(alone(c.rank, now))
	switch {
	case c.rounds > 0:
		c.tell(a)
		c.progress(a)
	case c.awaited == 0:
		c.complete(a)
	}
	return nil
}

// complete is reached once per epoch: this rank and all below it have entered.
func (c *Core) complete(a *Actions) {
	if c.parent == noParent {
		c.release(c.entered.lag(), a)
		return
	}
	m := c.message(Arrive, c.parent, c.epoch)
	m.Lag = c.entered.lag()
	a.Send = append(a.Send, m)
	c.counters.ArrivesSent++
}

// release lets the children go, tells them who held the epoch as the root saw it,
// and leaves. A winner releases the
// loser of its last round first, since that one has the most ranks to release
// in turn: so the release takes ⌈log₂N⌉ steps. The central rank goes in
// sequential order (seed 002, III.D.1).
func (c *Core) release(verdict Lag, a *Actions) {
	for i := range c.children {
		if c.tree.kind == Tournament {
			i = c.children - 1 - i
		}
		m := c.message(Release, c.tree.child(c.rank, i), c.epoch)
		m.Lag = verdict
		a.Send = append(a.Send, m)
	}
	c.counters.ReleasesSent += uint64(c.children)
	if c.children > 0 || c.parent != noParent {
		c.held = verdict.held()
	}
	c.leave(a)
}

func (c *Core) leave(a *Actions) {
	c.counters.Epochs++
	c.stand(c.epoch + 1)
	a.Released = true
}

// Receive takes a message from a neighbour. Late and duplicated messages are
// counted and change nothing; a message that breaks the protocol gives a
// *MessageError and changes nothing but its counter.
func (c *Core) Receive(m Message, now int64, a *Actions) error {
	from := int(m.From)
	if int(m.To) != c.rank {
		return c.refuse(m, ErrWrongRank, "it is for another rank")
	}
	if from >= c.tree.n || !c.adjacent(from, c.rank) {
		return c.refuse(m, ErrWrongRank, "the sender is no neighbour in this barrier")
	}
	if int(m.Lag.Last) >= c.tree.n {
		return c.refuse(m, ErrWrongRank, "it says that a rank entered last that is not there")
	}
	switch m.Kind {
	case Arrive:
		if c.rounds > 0 {
			return c.signal(m, now, a)
		}
		return c.arrive(m, now, a)
	case Release:
		return c.released(m, a)
	case Query:
		return c.query(m, a)
	case Reply:
		return c.reply(m, a)
	}
	return c.refuse(m, ErrWrongKind, "the kind is unknown")
}

// adjacent reports whether two ranks have anything to tell each other.
func (c *Core) adjacent(a, b int) bool {
	if c.rounds > 0 {
		return c.ring.adjacent(a, b)
	}
	return c.tree.adjacent(a, b)
}

// arrive takes the arrival of a child.
func (c *Core) arrive(m Message, now int64, a *Actions) error {
	i, ok := c.tree.childIndex(c.rank, int(m.From))
	if !ok {
		return c.refuse(m, ErrWrongKind, "a parent does not arrive at its child")
	}
	if m.Epoch < c.epoch {
		c.counters.Late++
		return nil
	}
	if m.Epoch > c.epoch {
		return c.refuse(m, ErrAhead, "this rank has not released its sender yet")
	}
	word, bit := i/64, uint64(1)<<(i%64)
	if c.arrived[word]&bit != 0 {
		c.counters.Duplicate++
		return nil
	}
	c.arrived[word] |= bit
	c.awaited--
	c.entered.merge(m.Lag.heard(now))
	if !c.inside {
		c.counters.Early++
		return nil
	}
	if c.awaited == 0 {
		c.complete(a)
	}
	return nil
}

// released takes the release by the parent.
func (c *Core) released(m Message, a *Actions) error {
	switch {
	case c.rounds > 0:
		return c.refuse(m, ErrWrongKind, "nobody is released in a dissemination")
	case int(m.From) != c.parent:
		return c.refuse(m, ErrWrongKind, "a child does not release its parent")
	}
	if m.Epoch < c.epoch {
		c.counters.Late++
		return nil
	}
	if m.Epoch > c.epoch || !c.inside || c.awaited > 0 {
		return c.refuse(m, ErrAhead, "this rank has not arrived there yet")
	}
	c.release(m.Lag, a)
	return nil
}

// refuse counts and describes a message that breaks the protocol.
func (c *Core) refuse(m Message, reason error, detail string) error {
	switch {
	case errors.Is(reason, ErrWrongRank):
		c.counters.WrongRank++
	case errors.Is(reason, ErrWrongKind):
		c.counters.WrongKind++
	case errors.Is(reason, ErrAhead):
		c.counters.Ahead++
	}
	return &MessageError{Rank: c.rank, Epoch: c.epoch, Message: m, Reason: reason, Detail: detail}
}

func (c *Core) message(kind MessageKind, to int, epoch uint64) Message {
	return Message{Kind: kind, From: uint16(c.rank), To: uint16(to), Epoch: epoch}
}
