package builderunit

import (
	"testing"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/builderunit/tap"
	"ringlet/event/selection"
	"ringlet/testkit/must"
)

// TestTheTapSeesWhatIsBuilt looks at MEPs whose windows are granted and at those whose windows are pre-granted, with a
// sink that keeps them and with one that keeps nothing, from the second MEP on.
func TestTheTapSeesWhatIsBuilt(t *testing.T) {
	for name, discard := range map[string]bool{"kept": false, "dropped": true} {
		change := func(tp *tap.Tap) func(*rig, *Config) {
			return func(_ *rig, c *Config) {
				c.Tap = tp
				if discard {
					c.Sink, c.Verify = &sink.Discard{}, VerifyOff
				}
			}
		}
		t.Run("granted, "+name, func(t *testing.T) {
			tp := tap.New()
			r := newRig(t, change(tp))
			r.look(tp, func(mep uint64) {
				var pieces []*piece
				for ru := range r.ranks {
					pieces = append(pieces, r.piece(ru, mep*rigPacking))
				}
				r.build(pieces, 0, mep)
			})
		})
		t.Run("pre-granted, "+name, func(t *testing.T) {
			tp := tap.New()
			r := newPreGrantedRig(t, 1, change(tp))
			r.look(tp, func(mep uint64) { r.buildPreGranted(0, mep) })
		})
	}
}

// look builds three MEPs, and looks at the last two.
func (r *rig) look(tp *tap.Tap, build func(mep uint64)) {
	r.t.Helper()
	sel, err := selection.Parse(selection.Spec{Share: 1, Data: true})
	must.OK(r.t, err)
	build(0)
	r.result()
	v, err := tp.OpenViewer(sel, time.Now())
	must.OK(r.t, err)
	defer v.Close()
	for mep := uint64(1); mep < 3; mep++ {
		build(mep)
		r.result()
	}
	events := v.AppendEvents(nil, 1<<20)
	if len(events) != 2*rigPacking {
		r.t.Fatalf("%d events", len(events))
	}
	for i, e := range events {
		if e.Run != 9 || e.MEP != uint64(1+i/rigPacking) || e.Number != uint64(rigPacking+i) || e.Attempt != 1 ||
			len(e.Fragments) != rigDivision.Sources() {
			r.t.Errorf("event %d: %+v", i, e)
		}
		for s, f := range e.Fragments {
			if err := r.rule.CheckFragment(uint16(s), e.Number, f.Data); err != nil || int(f.Source) != s {
				r.t.Errorf("event %d, source %d: %v", e.Number, f.Source, err)
			}
		}
	}
}
