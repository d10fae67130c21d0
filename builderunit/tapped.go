package builderunit

import (
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event/selection"
)

// offerToTap offers a MEP that is built to those who look, if it is time for one of them, before the sink has it:
// afterwards its slot is another's.
func (f *finisher) offerToTap(due bool, at time.Time, m sink.Meta, read []byte) {
	if !due {
		f.cfg.Tap.Skip(m.Events)
		return
	}
	f.cfg.Tap.Offer(at, selection.Meta{Run: m.Run, MEP: m.MEP, Attempt: m.Attempt}, read)
}
