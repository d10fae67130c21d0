package barrier

import "slices"

// report says which epochs a rank has entered, and which ranks it waits for.
type report struct {
	Rank          int
	EpochsEntered uint64 // epochs entered: all below this number
	WaitingFor    []int  // neighbours it waits for in epoch EpochsEntered−1; nil if it has left that one
}

// culprits returns, in rising order, the ranks that keep the others waiting in the latest epoch that a reporter has
// entered: those that report not to have entered it, and those that a rank inside waits for and that do not report at
// all. A rank behind a silent one is not named, since no reporter waits for it. Of several reports of one rank the
// furthest counts. The result is empty if every rank has entered and only a message is missing.
func culprits(reports []report) []int {
	latest := uint64(0)
	entered := make(map[int]uint64, len(reports))
	for _, r := range reports {
		entered[r.Rank] = max(entered[r.Rank], r.EpochsEntered)
		latest = max(latest, r.EpochsEntered)
	}
	var missing []int
	for _, r := range reports {
		if entered[r.Rank] < latest {
			missing = append(missing, r.Rank)
			continue
		}
		for _, w := range r.WaitingFor {
			if _, reported := entered[w]; !reported && r.EpochsEntered == latest {
				missing = append(missing, w)
			}
		}
	}
	return sortUnique(missing)
}

// waitingFor returns the ranks that this one waits for directly: the children that have not arrived or, when all have,
// the parent; in a dissemination the sender of the present round's signal. It is nil outside an epoch.
func (c *Core) waitingFor() []int {
	if !c.epochEntered {
		return nil
	}
	return c.algorithm.waitsFor()
}

// report returns this rank's state, for culprits.
func (c *Core) report() report {
	r := report{Rank: c.rank, EpochsEntered: c.epoch, WaitingFor: c.waitingFor()}
	if c.epochEntered {
		r.EpochsEntered++
	}
	return r
}

// startInquiry begins the inquiry after a time-out: it queries the ranks that this rank waits for. Outside an epoch it
// does nothing. It may be repeated; earlier answers are dropped, since they may be outdated.
func (c *Core) startInquiry(a *Actions) {
	if !c.epochEntered {
		return
	}
	c.inquiring = true
	c.reports = c.reports[:0]
	first := c.message(kindQuery, c.rank, c.epoch)
	first.Origin = first.From
	c.forwardQuery(c.waitingFor(), first, a)
}

// missingRanks concludes the inquiry with the answers received so far.
func (c *Core) missingRanks() []int {
	return culprits(append([]report{c.report()}, c.reports...))
}

// forwardQuery sends a query, received or this rank's own, to all of list except the query's sender and its origin.
func (c *Core) forwardQuery(list []int, q Message, a *Actions) {
	for _, w := range list {
		if w != int(q.From) && w != int(q.Origin) {
			m := c.message(kindQuery, w, c.epoch)
			m.Origin = q.Origin
			m.Path = c.algorithm.extendPath(q.Path)
			a.Send = append(a.Send, m)
		}
	}
}

// answerQuery replies with this rank's state, and passes the query on to the ranks that this rank waits for. In a tree
// a query never turns back, so it ends; in a dissemination each step is of a lower round than the one before. So no
// state is needed, and no query circles.
func (c *Core) answerQuery(m Message, a *Actions) error {
	if int(m.Origin) >= c.n || int(m.Origin) == c.rank || !c.algorithm.validQuery(m) {
		return c.refuse(m, errWrongRank, "its origin does not lie behind its sender")
	}
	// The origin has entered m.Epoch, so every rank has entered the epoch before. This rank is at most one epoch behind,
	// and the message that ends its epoch is on its way.
	if m.Epoch > c.epoch && (m.Epoch != c.epoch+c.epochStride || !c.epochEntered) {
		return c.refuse(m, errImpossibleEpoch, "no rank can be inside that epoch yet")
	}
	c.counters.Queries++
	answer := c.message(kindReply, int(m.From), m.Epoch)
	answer.Origin, answer.Rank, answer.Path = m.Origin, uint16(c.rank), dropLastStep(m.Path)
	switch {
	case m.Epoch < c.epoch:
		answer.Status = statusReleased
		a.Send = append(a.Send, answer)
	case m.Epoch > c.epoch || !c.epochEntered:
		answer.Status = statusAbsent
		a.Send = append(a.Send, answer)
	case c.algorithm.hasSent(m):
		answer.Status = statusSent
		a.Send = append(a.Send, answer)
	default:
		// Replies go before queries, so that on an ordered link the origin learns that this rank is alive before it gets
		// replies from behind it.
		answer.Status = statusWaiting
		list := c.waitingFor()
		for _, w := range list {
			answer.WaitsFor = uint16(w)
			a.Send = append(a.Send, answer)
		}
		c.forwardQuery(list, m, a)
	}
	return nil
}

// handleReply records the reply to an own query, or passes the reply on towards its origin.
func (c *Core) handleReply(m Message, a *Actions) error {
	rank, waits := int(m.Rank), int(m.WaitsFor)
	if rank >= c.n || rank == c.rank || !c.algorithm.mayLieBehind(rank, int(m.From)) {
		return c.refuse(m, errWrongRank, "the rank that it reports does not lie behind its sender")
	}
	if m.Status == statusWaiting && (waits >= c.n || !c.algorithm.adjacent(rank, waits)) {
		return c.refuse(m, errWrongRank, "the rank waited for is no neighbour of the waiting one")
	}
	next, ok := 0, int(m.Origin) < c.n
	if ok {
		next, ok = c.algorithm.replyRoute(m)
	}
	if !ok {
		return c.refuse(m, errWrongRank, "its origin lies behind its sender")
	}
	if int(m.Origin) != c.rank {
		m.From, m.To, m.Path = uint16(c.rank), uint16(next), dropLastStep(m.Path)
		a.Send = append(a.Send, m)
		c.counters.RepliesHandled++
		return nil
	}
	if !c.inquiring || m.Epoch != c.epoch {
		c.counters.UnsolicitedReplies++
		return nil
	}
	c.counters.RepliesHandled++
	c.recordReport(m)
	return nil
}

// recordReport keeps each different answer once. There are at most as many as ranks and edges, so a peer that repeats
// itself cannot make the list grow.
func (c *Core) recordReport(m Message) {
	r := report{Rank: int(m.Rank), EpochsEntered: m.Epoch + 1}
	switch m.Status {
	case statusAbsent:
		r.EpochsEntered = m.Epoch
	case statusWaiting:
		r.WaitingFor = []int{int(m.WaitsFor)}
	}
	for _, known := range c.reports {
		if known.Rank == r.Rank && known.EpochsEntered == r.EpochsEntered && slices.Equal(known.WaitingFor, r.WaitingFor) {
			return
		}
	}
	c.reports = append(c.reports, r)
}
