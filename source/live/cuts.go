package live

import "time"

// cuts are the MEPs that the scheduler has cut and the reader has not taken, and how far the next cut can go.
type cuts struct {
	window *window
	rules  *Rules

	list       []Cut  // the cuts not taken
	end        uint64 // of the last cut
	reach      uint64 // events below are decided, and fit into the next MEP
	firstUncut uint64 // the first event of [end, decidedBelow) with a fragment
	spaceLeft  int    // bytes left for the next MEP, at reach
	cutAt      time.Duration
	reported   Reach
}

func (c *cuts) add(next Cut, now time.Duration) {
	w, end := c.window, next.End()
	c.list, c.cutAt = append(c.list, next), now
	for e := max(c.end, w.low); e < min(end, c.reach); e++ {
		c.spaceLeft += int(w.bytes[e&w.mask])
	}
	if end >= c.reach {
		c.reach, c.spaceLeft = end, c.rules.MaxMEPBytes
	}
	c.end, c.firstUncut = end, max(c.firstUncut, end)
}

func (c *cuts) remove() { c.list = c.list[:copy(c.list, c.list[1:])] }

// isDecided says whether there is a cut and the events of the first one are decided.
func (c *cuts) isDecided() bool { return len(c.list) > 0 && c.window.decidedBelow >= c.list[0].End() }

// hasUncut says that events with fragments are decided and not cut.
func (c *cuts) hasUncut() bool {
	c.firstUncut = c.window.firstHeld(max(c.firstUncut, c.window.low), c.window.decidedBelow)
	return c.firstUncut < c.window.decidedBelow
}

// leap goes on at event number to, far ahead, after numbers that no source has.
func (c *cuts) leap(to uint64) { c.firstUncut, c.reach = max(c.firstUncut, to), max(c.reach, to) }

// grow adds decided events to the next MEP as far as it has room.
func (c *cuts) grow() {
	w := c.window
	c.reach = max(c.reach, c.end, w.low)
	for c.reach < w.decidedBelow && int(w.bytes[c.reach&w.mask]) <= c.spaceLeft {
		c.spaceLeft -= int(w.bytes[c.reach&w.mask])
		c.reach++
	}
	c.firstUncut = w.firstHeld(max(c.firstUncut, w.low), c.reach)
}

// report notes how far the data go; over: no source will give anything beyond. After that, CompleteBelow stays,
// although other readout units' data may have made the scheduler cut further.
func (c *cuts) report(over bool) {
	r := &c.reported
	if !r.InputOver {
		r.CompleteBelow, r.InputOver = max(r.CompleteBelow, c.reach), over
	}
	r.FirstUncut = min(c.firstUncut, r.CompleteBelow)
}

// updateDeadlines notes which events are due, unless MEPs wait to be taken: then there is enough to do. full: the next
// MEP cannot grow. Deadlines count from the event or from the last cut, whichever is later; otherwise a source that
// lags behind, or gives nothing, would make a MEP of each event.
func (c *cuts) updateDeadlines(full bool, now time.Duration) (again time.Duration) {
	r, w := &c.reported, c.window
	if c.firstUncut >= c.reach || w.low < c.end {
		return Never
	}
	again = Never
	due := max(w.firstSeen[c.firstUncut&w.mask], c.cutAt) + c.rules.FlushAfter
	ripe := now >= due || full || c.reach < w.decidedBelow
	if ripe {
		r.FlushBelow = max(r.FlushBelow, c.reach)
	} else {
		again = due
	}
	if c.rules.OnMissing == WaitForMissing || !ripe && c.reach-c.firstUncut < uint64(c.rules.Packing) {
		return again
	}
	e := max(c.firstUncut, r.OverdueBelow)
	for e < c.reach && now >= w.firstSeen[e&w.mask]+c.rules.FragmentTimeout {
		e++
	}
	if ripe || e-c.firstUncut >= uint64(c.rules.Packing) {
		r.OverdueBelow = max(r.OverdueBelow, e)
	}
	if e < c.reach {
		again = min(again, w.firstSeen[e&w.mask]+c.rules.FragmentTimeout)
	}
	return again
}
