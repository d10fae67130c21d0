package builder

import (
	"ringlet/readoutunit"
	"ringlet/tagnet/core"
)

// With push, tokens come before their MEPs are read. Then no message is needed before the builder unit's windows:
//
//	tokens ─► addCredits ─┐
//	read ─────────────────┴► useCredits: all MEPs of a cycle are read ─► windowsArrived

// credits are the tokens of a cycle whose MEPs may not be read yet.
type credits struct {
	batch     *core.Batch
	below     uint64 // all MEPs of the cycle are below
	unusedRUs int    // readout units that have not read them
}

// addCredits keeps cycles whose tokens are at all readout units.
func (w *World) addCredits(b *core.Batch) {
	for i := range b.Len() {
		at := i * b.PlacesPerCycle
		c := &credits{unusedRUs: len(w.rus), batch: &core.Batch{
			FirstCycle:     b.FirstCycle + uint64(i),
			PlacesPerCycle: b.PlacesPerCycle,
			MEPs:           b.MEPs[at : at+b.PlacesPerCycle],
			Slots:          b.Slots[at : at+b.PlacesPerCycle],
		}}
		for _, mep := range c.batch.MEPs {
			if mep != core.NoMEP {
				c.below = max(c.below, mep+1)
			}
		}
		for _, r := range w.rus {
			r.credits = append(r.credits, c)
		}
	}
	for _, r := range w.rus {
		r.useCredits()
	}
}

// read notes how many MEPs a readout unit has read.
func (r *ru) read(meps uint64) {
	if r.w.c.Discipline.Push {
		r.mepsRead = meps
		r.useCredits()
	}
}

// useCredits has a readout unit assign the MEPs that it has read. Without pre-granted windows it waits for those that
// the builder units grant when all readout units have done so.
func (r *ru) useCredits() {
	w := r.w
	w.recordError(readoutunit.MarkRead(r.order, r.mepsRead))
	for len(r.credits) > 0 && r.credits[0].below <= r.mepsRead {
		c := r.credits[0]
		r.credits = r.credits[1:]
		if c.unusedRUs == len(w.rus) {
			for _, mep := range c.batch.MEPs {
				w.tokenSentAt[mep] = w.s.Now() // what was before is no latency: the token waited for its MEP
			}
			delete(w.tokenSentAt, core.NoMEP)
		}
		c.unusedRUs--
		switch {
		case w.c.WindowDelay == 0:
			for p := range c.batch.PlacesPerCycle {
				if t, ok := c.batch.Token(0, p); ok {
					r.grant(&t)
				}
			}
		case c.unusedRUs == 0:
			w.s.ScheduleAfter(w.c.WindowDelay, (*windowsArrived)(w), w.batches.store(c.batch), 0)
		}
	}
	r.step()
}
