package tagnet

import "math/bits"

// ApplyUpdate takes the newest watermark of readout unit ru. One that goes back, moves after the unit's end, or names a
// number of events that does not fit is refused with an *inputError, counted, and changes nothing. EndMismatch alone is
// a report: the update stands, and the run will end at the earliest end.
func (c *Core) ApplyUpdate(ru int, u Update) error {
	if ru < 0 || ru >= len(c.rus) {
		return c.refuse(UnknownUnit, "scheduler", "update of readout unit %d of %d", ru, len(c.rus))
	}
	s := &c.rus[ru]
	name := c.cfg.RUs[ru]
	switch {
	case s.excluded:
		return c.refuse(UnitExcluded, name, "update to %d after the unit was excluded", u.ReadBelow)
	case u.ReadBelow < s.ReadBelow:
		return c.refuse(WatermarkBack, name, "watermark goes back from %d to %d", s.ReadBelow, u.ReadBelow)
	case s.InputEnded && (u.ReadBelow != s.ReadBelow || !u.InputEnded):
		return c.refuse(AfterEnd, name, "watermark %d after the end at %d", u.ReadBelow, s.ReadBelow)
	}
	if err := c.checkEvents(ru, u); err != nil {
		return err
	}
	ending := u.InputEnded && !s.InputEnded
	s.Update = u
	c.updateReadWatermark()
	if ending {
		return c.checkEnd(ru)
	}
	return nil
}

// checkEvents holds the readout units to one account of events: every MEP has Packing, but the last may be short, and
// then it is the same MEP with the same number for all of them.
func (c *Core) checkEvents(ru int, u Update) error {
	if c.cutter != nil {
		return c.checkCuts(ru, u)
	}
	name := c.cfg.RUs[ru]
	high, full := bits.Mul64(u.ReadBelow-c.cfg.FirstMEP, uint64(c.cfg.Packing))
	if high != 0 || u.Events > full || full-u.Events >= uint64(c.cfg.Packing) {
		return c.refuse(EventsMismatch, name, "%d events do not fill the MEPs from %d up to %d at %d each",
			u.Events, c.cfg.FirstMEP, u.ReadBelow, c.cfg.Packing)
	}
	lacks := uint32(full - u.Events)
	switch {
	case lacks == 0 && u.ReadBelow <= c.shortMEP: // includes: none is known
		return nil
	case lacks == 0:
		return c.refuse(EventsMismatch, name, "MEP %d is full here and lacks %d events elsewhere", c.shortMEP,
			c.shortMEPLacks)
	case c.shortMEP == NoMEP:
		for i := range c.rus {
			if r := &c.rus[i]; !r.excluded && r.ReadBelow >= u.ReadBelow {
				return c.refuse(EventsMismatch, name, "MEP %d lacks %d events here and is full on %s", u.ReadBelow-1, lacks,
					c.cfg.RUs[i])
			}
		}
		c.shortMEP, c.shortMEPLacks = u.ReadBelow-1, lacks
		return nil
	case c.shortMEP != u.ReadBelow-1 || c.shortMEPLacks != lacks:
		return c.refuse(EventsMismatch, name, "MEP %d lacks %d events here, elsewhere MEP %d lacks %d",
			u.ReadBelow-1, lacks, c.shortMEP, c.shortMEPLacks)
	}
	return nil
}

// checkEnd compares the end of a unit that has just ended with what the others have. A unit with live sources may end
// before the others, where one of its sources lets it down: it tells why itself.
func (c *Core) checkEnd(ru int) error {
	if c.cutter != nil {
		return nil
	}
	end := c.rus[ru].ReadBelow
	for i := range c.rus {
		if r := &c.rus[i]; !r.excluded && (r.ReadBelow > end || r.InputEnded && r.ReadBelow < end) {
			return c.refuse(EndMismatch, c.cfg.RUs[ru], "the input ends at MEP %d, but %s has read up to %d", end, c.cfg.RUs[i],
				r.ReadBelow)
		}
	}
	return nil
}

// updateReadWatermark finds the watermark that all included readout units have passed.
func (c *Core) updateReadWatermark() {
	low, ended, included := NoMEP, false, false
	for i := range c.rus {
		r := &c.rus[i]
		if r.excluded {
			continue
		}
		included = true
		low = min(low, r.ReadBelow)
	}
	if !included {
		// Nobody is left to read: what has been issued is all there is.
		c.readWatermark, c.inputEnded = c.nextMEP, true
		return
	}
	// A unit that has ended at the lowest watermark ends it for all: it will not move.
	for i := range c.rus {
		r := &c.rus[i]
		ended = ended || !r.excluded && r.InputEnded && r.ReadBelow == low
	}
	c.readWatermark, c.inputEnded = low, ended
}
