package barrier

// bracket is the algorithm of the kinds in which ranks arrive at a parent and are released by it: central and
// tournament, and none, where nobody has a parent.
//
// One bit for each child is enough, that is, a peer is at most one epoch ahead: a
// child sends Arrive(e+1) only after Release(e) from this rank, and this rank
// sends Release(e) only after it left e itself. A parent sends Release(e) only
// after Arrive(e) from this rank. So, whatever the network does to the order,
// an arrival is for the epoch this rank stands at, or a copy of an older one.
type bracket struct {
	// Immutable.
	tree
	rank       int
	parentRank int // the parent; noParent for the root, and where there is no tree
	childCount int // children

	// Owned by the core.
	awaitedChildren int      // children that have not arrived
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

// complete is reached once per epoch: this rank and all below it have entered.
func (b *bracket) complete(c *Core, a *Actions) {
	if b.parentRank == noParent {
		b.release(c, c.entries.lag(), a)
		return
	}
	c.send(kindArrive, b.parentRank, c.entries.lag(), a)
}

// release lets the children go, tells them who held the epoch as the root saw it,
// and leaves. A winner releases the
// loser of its last round first, since that one has the most ranks to release
// in turn: so the release takes ⌈log₂N⌉ steps. The central rank goes in
// sequential order (LHCb-EB §III.D.1).
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

// An inquiry finds its way through a tree by formula, and has no path: a query never turns back, and a way that
// never turns back ends.

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
