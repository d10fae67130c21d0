package barrier

import "slices"

// report says how far a rank has come and whom it waits for.
type report struct {
	Rank          int
	EpochsEntered uint64 // epochs entered: all below this number
	WaitingFor    []int  // neighbours it waits for in epoch Entered−1; nil if it has left that one
}

// culprits returns, in rising order, the ranks that keep the others waiting in
// the latest epoch that any reporter has entered: those that report not to have
// entered it, and those that somebody inside waits for but that do not report
// at all. A rank behind a silent one is not accused: nobody waits for it.
// Several reports of one rank count as the furthest of them. The result is
// empty when everybody has entered and only a message is missing.
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

// waitingFor names the ranks this one waits for directly: the children that
// have not arrived or, when all have, the parent that has not released; in a
// dissemination the one that has not signalled in the round this rank stands in.
// It is nil outside an epoch.
func (c *Core) waitingFor() []int {
	if !c.epochEntered {
		return nil
	}
	return c.algorithm.waitsFor()
}

// report returns where this rank stands, for culprits.
func (c *Core) report() report {
	r := report{Rank: c.rank, EpochsEntered: c.epoch, WaitingFor: c.waitingFor()}
	if c.epochEntered {
		r.EpochsEntered++
	}
	return r
}

// startInquiry begins the inquiry after a time-out: it asks those this rank waits for.
// Outside an epoch it does nothing. It may be repeated; answers collected
// before are forgotten, since they may have become untrue.
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

// missingRanks concludes the inquiry with what has been answered until now.
func (c *Core) missingRanks() []int {
	return culprits(append([]report{c.report()}, c.reports...))
}

// forwardQuery sends a query that has come, or is its rank's own, to all of list but
// the rank it came from and the one that asks.
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

// answerQuery answers where this rank stands and passes the question on to those it
// waits for. In a tree a query never turns back, and a way that never turns back
// ends; in a dissemination each step is of a lower round than the one before. So
// no state is kept and nothing can circle.
func (c *Core) answerQuery(m Message, a *Actions) error {
	if int(m.Origin) >= c.n || int(m.Origin) == c.rank || !c.algorithm.validQuery(m) {
		return c.refuse(m, errWrongRank, "its origin does not lie behind its sender")
	}
	// Origin has entered m.Epoch, so everybody has entered the epoch before: this
	// rank stands there at most one behind, what ends it here being on the way.
	if m.Epoch > c.epoch && (m.Epoch != c.epoch+c.epochStride || !c.epochEntered) {
		return c.refuse(m, errImpossibleEpoch, "nobody can be inside that epoch yet")
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
		// Answers go before questions, so that on an ordered link the origin
		// hears that this rank is alive before it hears from behind it.
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

// handleReply notes the answer to an own question, or passes it on to its origin.
func (c *Core) handleReply(m Message, a *Actions) error {
	rank, waits := int(m.Rank), int(m.WaitsFor)
	if rank >= c.n || rank == c.rank || !c.algorithm.mayLieBehind(rank, int(m.From)) {
		return c.refuse(m, errWrongRank, "the rank it speaks of does not lie behind its sender")
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

// recordReport keeps an answer once; there are no more different ones than there are
// ranks and edges, so a peer that repeats itself cannot make the list grow.
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
