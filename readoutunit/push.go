package readoutunit

import "ringlet/tagnet/core"

// credits are the tokens that come before their MEPs are read (LHCb-EB §II: the readout units assign events to builder
// units). Cycle after cycle, the unit uses them when it has read all MEPs of the cycle: MEP after MEP, round robin by
// number, no question to the scheduler between the reading and the sending.
//
//	read ─► assign: use the credits of whole cycles ─► the phases of the shift
type credits struct {
	t           *Transfers
	readBelow   uint64 // MEPs below are read
	limit       uint64 // no MEP from here on is assigned: the run is paused, waits for its end, or ends there
	firstUnused uint64 // first place of the first cycle whose credits are not used
	hasStopped  bool   // the run is to end, and the unit has reported where it has stopped
	isEnding    bool   // the end is known, and is the limit
}

// placesReady is the first place that may not be in a round yet, where next is the next place to come. Without credits
// all that have come may.
func (c *credits) placesReady(next uint64) uint64 {
	if c == nil {
		return next
	}
	return c.firstUnused
}

// assign uses the credits of all cycles whose MEPs are read.
func (c *credits) assign() error {
	s := c.t
	for below := min(c.readBelow, c.limit); c.firstUnused < s.nextPlace(); {
		cycle := s.places[c.firstUnused-s.firstPlace:][:s.placesPerCycle]
		for i := range cycle {
			if t := &cycle[i]; t.Stage == stageCredit && t.MEP >= below {
				return nil
			}
		}
		first := c.firstUnused
		c.firstUnused += uint64(s.placesPerCycle)
		for _, bu := range s.visits {
			if bu != Dummy {
				use(s, &cycle[bu])
			}
		}
		if err := s.order.Note(CycleCame, first); err != nil {
			return err
		}
	}
	return nil
}

// MarkRead notes that the unit has read the MEPs below, in a discipline in which tokens come before. An error says that
// the unit cannot go on.
func MarkRead(s *Transfers, below uint64) error { return s.credits.markRead(below) }

func (c *credits) markRead(below uint64) error {
	c.readBelow = max(c.readBelow, below)
	return c.assign()
}

// assignedBelow is the MEP below which all MEPs may be assigned; none from there on is.
func (c *credits) assignedBelow() uint64 {
	return min(c.readBelow, c.limit, c.t.tokensBelow)
}

// follow applies the scheduler's state: paused, no MEP is assigned any more; draining, neither, until the end is known.
// It reports whether the unit has stopped now, and is to report where.
func (c *credits) follow(state core.State, endKnown bool, end uint64) (stopped bool, err error) {
	switch {
	case c.isEnding:
		return false, nil
	case endKnown:
		c.limit, c.isEnding = end, true
		c.voidFrom(end)
	case state == core.Running:
		c.limit = core.NoMEP
	case state == core.Paused || state == core.Draining:
		c.limit = c.assignedBelow()
		stopped = state == core.Draining && !c.hasStopped
		c.hasStopped = c.hasStopped || stopped
	}
	return stopped, c.assign()
}

// voidFrom takes back the tokens of MEPs from end on: the run ends before. They count as if they had not come.
func (c *credits) voidFrom(end uint64) {
	s := c.t
	for i := range s.places {
		t := &s.places[i]
		if t.MEP < end || t.Stage != stageCredit && t.Stage != stageAnnounced && t.Stage != stageGranted {
			continue
		}
		t.Stage = stageDone
		s.openCount--
		s.tokens--
	}
}
