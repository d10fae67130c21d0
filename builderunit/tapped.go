package builderunit

import (
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event/selection"
)

// offerToTap offers a MEP that is built to those who look, if it is time for one of them, before the sink has it:
// afterwards its slot is another's.
func (b *Builder) offerToTap(due bool, at time.Time, m sink.Meta, read []byte) {
	if !due {
		b.cfg.Tap.Skip(m.Events)
		return
	}
	b.cfg.Tap.Offer(at, selection.Meta{Run: m.Run, MEP: m.MEP, Attempt: m.Attempt}, read)
}

// ensureScratch makes the room in which MEPs without gaps are copied, where it is not there yet: where nothing is
// copied but what somebody looks at, it is made for the first who does.
func (b *Builder) ensureScratch() {
	if b.scratch.packedMEP == nil {
		b.scratch.packedMEP = make([]byte, b.cfg.Layout.Size())
	}
}
