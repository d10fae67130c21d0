package barrier

// bracket is the algorithm of the kinds in which a rank arrives at its parent and is released by it: central and
// tournament, and none, in which no rank has a parent.
//
// One bit for each child is enough, since a neighbour is at most one epoch ahead: a child sends Arrive(e+1) only after
// Release(e) from this rank, and this rank sends Release(e) only when it leaves e itself. A parent sends Release(e)
// only after Arrive(e) from this rank. So in whatever order the network delivers, an arrival is for this rank's present
// epoch, or a copy of an older one.
type bracket struct {
	// Immutable.
	tree
	rank       int
	parentRank int // noParent for the root, and for kind None
	childCount int // number of children

	// Owned by the core.
	awaitedChildren int      // number of children that have not arrived
	arrivedBits     []uint64 // bit i: child i has arrived
}

func newBracket(kind Kind, n, rank int) *bracket {
	t := tree{kind: kind, n: n}
	b := &bracket{
		tree:       t,
		rank:       rank,
		parentRank: t.parent(rank),
		childCount: t.children(rank),
	}
	b.arrivedBits = make([]uint64, (b.childCount+63)/64)
	return b
}

func (b *bracket) maxMessages() int { return 1 + b.childCount }

func (b *bracket) beginEpoch(*Core) {
	b.awaitedChildren = b.childCount
	clear(b.arrivedBits)
}

func (b *bracket) enter(c *Core, a *Actions) {
	if b.awaitedChildren == 0 {
		b.complete(c, a)
	}
}

// complete is called once per epoch, when this rank and all ranks below it have entered.
func (b *bracket) complete(c *Core, a *Actions) {
	if b.parentRank == noParent {
		b.release(c, c.entries.lag(), a)
		return
	}
	c.send(kindArrive, b.parentRank, c.entries.lag(), a)
}

// release releases the children, with the straggler as the root saw it, and leaves the epoch. A tournament's winner
// releases the loser of its last round first, since that one has the most ranks to release in turn: so the release
// takes ⌈log₂N⌉ steps. The central rank releases in sequential order (LHCb-EB §III.D.1).
func (b *bracket) release(c *Core, verdict Lag, a *Actions) {
	for i := range b.childCount {
		if b.kind == Tournament {
			i = b.childCount - 1 - i
		}
		c.send(kindRelease, b.child(b.rank, i), verdict, a)
	}
	if b.childCount == 0 && b.parentRank == noParent {
		c.leaveEpoch(c.lastStraggler, a)
		return
	}
	c.leaveEpoch(verdict.straggler(), a)
}

func (b *bracket) senderIndex(m Message) (child int, wrong string) {
	from := int(m.From)
	if m.Kind == kindRelease {
		if from != b.parentRank {
			return 0, "a child does not release its parent"
		}
		return 0, ""
	}
	child, ok := b.childIndex(b.rank, from)
	if !ok {
		return 0, "a parent does not arrive at its child"
	}
	return child, ""
}

func (b *bracket) accept(c *Core, m Message, child int, now int64, a *Actions) error {
	if m.Kind == kindRelease {
		if m.Epoch > c.epoch || !c.epochEntered || b.awaitedChildren > 0 {
			return c.refuse(m, errImpossibleEpoch, "this rank has not arrived there yet")
		}
		b.release(c, m.Lag, a)
		return nil
	}
	if m.Epoch > c.epoch {
		return c.refuse(m, errImpossibleEpoch, "this rank has not released its sender yet")
	}
	word, bit := child/64, uint64(1)<<(child%64)
	if b.arrivedBits[word]&bit != 0 {
		c.counters.Duplicate++
		return nil
	}
	b.arrivedBits[word] |= bit
	b.awaitedChildren--
	c.entries.merge(m.Lag.entrySet(now))
	if !c.epochEntered {
		c.counters.Early++
		return nil
	}
	b.enter(c, a)
	return nil
}

func (b *bracket) waitsFor() []int {
	if b.awaitedChildren == 0 {
		return []int{b.parentRank}
	}
	list := make([]int, 0, b.awaitedChildren)
	for i := range b.childCount {
		if b.arrivedBits[i/64]&(1<<(i%64)) == 0 {
			list = append(list, b.child(b.rank, i))
		}
	}
	return list
}

// In a tree a query needs no path: its way follows from the ranks. It never turns back, so it ends.

func (b *bracket) extendPath(uint16) uint16 { return 0 }

func (b *bracket) hasSent(Message) bool { return false }

func (b *bracket) mayLieBehind(rank, from int) bool { return b.nextHop(b.rank, rank) == from }

func (b *bracket) validQuery(m Message) bool {
	return m.Path == 0 && b.mayLieBehind(int(m.Origin), int(m.From))
}

func (b *bracket) replyRoute(m Message) (next int, ok bool) {
	next = b.nextHop(b.rank, int(m.Origin))
	return next, m.Path == 0 && (int(m.Origin) == b.rank || next != int(m.From))
}
