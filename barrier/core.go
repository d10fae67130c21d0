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
	Early        uint64 // arrivals from a child that entered before this rank did
	Duplicate    uint64 // arrivals of a child that had arrived in this epoch
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
// goroutines or clock. It holds its own place in the tree and one bit for each
// child, whatever N is.
//
// Why one bit is enough, that is, why a peer is at most one epoch ahead: a
// child sends Arrive(e+1) only after Release(e) from this rank, and this rank
// sends Release(e) only after it left e itself. A parent sends Release(e) only
// after Arrive(e) from this rank. So, whatever the network does to the order,
// an arrival is for the epoch this rank stands at, or a copy of an older one.
type Core struct {
	// Immutable after NewCore.
	tree     tree
	rank     int
	parent   int // noParent for the root
	children int

	// Owned by the caller, one step at a time.
	epoch    uint64   // the epoch to be entered next, or entered and not left
	inside   bool     // epoch has been entered
	awaited  int      // children that have not arrived in epoch
	arrived  []uint64 // bit i: child i has arrived in epoch
	asking   bool     // a time-out struck in epoch: replies are collected
	reports  []Report // what the replies said
	counters Counters
}

// NewCore returns the core of the given rank of n, standing before epoch 0. It
// fails on an unknown kind, on n outside 1..MaxRanks and on a rank outside 0..n-1.
func NewCore(kind Kind, n, rank int) (*Core, error) {
	if kind > Tournament {
		return nil, fmt.Errorf("barrier %s is unknown", kind)
	}
	if n < 1 || n > MaxRanks {
		return nil, fmt.Errorf("a barrier of %d ranks is impossible, it takes 1 to %d", n, MaxRanks)
	}
	if rank < 0 || rank >= n {
		return nil, fmt.Errorf("rank %d is not in a barrier of %d ranks", rank, n)
	}
	t := tree{kind: kind, n: n}
	c := &Core{tree: t, rank: rank, parent: t.parent(rank), children: t.children(rank)}
	c.arrived = make([]uint64, (c.children+63)/64)
	c.Reset(0)
	return c, nil
}

// Reset puts the core before firstEpoch, forgetting what has arrived. The
// counters go on. See the package comment for when it may be called.
func (c *Core) Reset(firstEpoch uint64) {
	c.stand(firstEpoch)
}

// stand begins an epoch that nobody has entered.
func (c *Core) stand(epoch uint64) {
	c.epoch = epoch
	c.inside = false
	c.awaited = c.children
	clear(c.arrived)
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

// Counters returns a copy of the counters.
func (c *Core) Counters() Counters { return c.counters }

// Enter enters the epoch this rank stands at. a.Released tells that the epoch
// ended at once: there is nobody to wait for, or all others are waiting.
func (c *Core) Enter(epoch uint64, a *Actions) error {
	if epoch != c.epoch || c.inside {
		return &EnterError{Rank: c.rank, Asked: epoch, Epoch: c.epoch, Inside: c.inside}
	}
	c.inside = true
	if c.awaited == 0 {
		c.complete(a)
	}
	return nil
}

// complete is reached once per epoch: this rank and all below it have entered.
func (c *Core) complete(a *Actions) {
	if c.parent == noParent {
		c.release(a)
		return
	}
	a.Send = append(a.Send, c.message(Arrive, c.parent, c.epoch))
	c.counters.ArrivesSent++
}

// release lets the children go and leaves the epoch. A winner releases the
// loser of its last round first, since that one has the most ranks to release
// in turn: so the release takes ⌈log₂N⌉ steps. The central rank goes in
// sequential order (seed 002, III.D.1).
func (c *Core) release(a *Actions) {
	for i := range c.children {
		if c.tree.kind == Tournament {
			i = c.children - 1 - i
		}
		a.Send = append(a.Send, c.message(Release, c.tree.child(c.rank, i), c.epoch))
	}
	c.counters.ReleasesSent += uint64(c.children)
	c.counters.Epochs++
	c.stand(c.epoch + 1)
	a.Released = true
}

// Receive takes a message from a neighbour. Late and duplicated messages are
// counted and change nothing; a message that breaks the protocol gives a
// *MessageError and changes nothing but its counter.
func (c *Core) Receive(m Message, a *Actions) error {
	from := int(m.From)
	if int(m.To) != c.rank {
		return c.refuse(m, ErrWrongRank, "it is for another rank")
	}
	if from >= c.tree.n || !c.tree.adjacent(from, c.rank) {
		return c.refuse(m, ErrWrongRank, "the sender is no neighbour in this barrier")
	}
	switch m.Kind {
	case Arrive:
		return c.arrive(m, a)
	case Release:
		return c.released(m, a)
	case Query:
		return c.query(m, a)
	case Reply:
		return c.reply(m, a)
	}
	return c.refuse(m, ErrWrongKind, "the kind is unknown")
}

// arrive takes the arrival of a child.
func (c *Core) arrive(m Message, a *Actions) error {
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
	if int(m.From) != c.parent {
		return c.refuse(m, ErrWrongKind, "a child does not release its parent")
	}
	if m.Epoch < c.epoch {
		c.counters.Late++
		return nil
	}
	if m.Epoch > c.epoch || !c.inside || c.awaited > 0 {
		return c.refuse(m, ErrAhead, "this rank has not arrived there yet")
	}
	c.release(a)
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
