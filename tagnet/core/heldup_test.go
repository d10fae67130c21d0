package core

import (
	"testing"

	"pgregory.net/rapid"
)

// TestStoppedBuilders stops builder units at random and for good, and holds that under Skip the others go on for ever,
// however low the rate; that under Wait the slots of the stopped ones are all that can be used; and that either way all
// ends well when they are back.
func TestStoppedBuilders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.withoutGroups(t)
		m.total = 400
		m.events = m.total * uint64(m.core.cfg.Packing)
		stopped, any := make([]bool, len(m.out)), false
		alive := rapid.IntRange(0, len(m.out)-1).Draw(t, "alive")
		for j := range stopped {
			stopped[j] = j != alive && rapid.Bool().Draw(t, "stopped")
			any = any || stopped[j]
		}
		atOnce := rapid.Uint64Range(1, 10).Draw(t, "MEPs at once")
		for read := atOnce; read < m.total; read += atOnce {
			for ru := range m.read {
				m.sendUpdate(t, ru, read)
			}
			before := -1
			for before != len(m.done) {
				before = len(m.done)
				m.issue(t)
				m.check(t)
				m.answerAlive(t, stopped)
				m.check(t)
			}
		}
		switch r := m.core.Registers(); {
		case m.core.cfg.NoSlotPolicy == Skip || !any:
			m.checkWentOn(t, r, stopped, atOnce)
		case m.core.chooser == nil:
			m.checkSlotsUsed(t, r, stopped)
		}
		m.finish(t)
	})
}

// withoutGroups makes the core anew without groups, in which a stopped builder unit would stop the others by design,
// and with a window that is not what binds.
func (m *model) withoutGroups(t *rapid.T) {
	cfg := m.core.cfg
	cfg.Rules.Groups, cfg.Rules.BusyGroupPolicy, cfg.Rules.TurnSets = nil, Wait, nil
	cfg.Window = 1024
	core := newAllocator(t, cfg)
	core.Start()
	m.core = core
}

// checkWentOn holds that all that was read is done, but for what stopped builder units have and an incomplete cycle.
func (m *model) checkWentOn(t *rapid.T, r *Registers, stopped []bool, atOnce uint64) {
	remaining := m.total - uint64(len(m.done))
	for j := range stopped {
		if stopped[j] {
			remaining -= r.Bus[j].Used.Now
		}
	}
	if remaining > atOnce+uint64(m.core.placesPerCycle) {
		t.Fatalf("%d MEPs have not been built, though somebody could: %+v", remaining, r)
	}
}

// checkSlotsUsed holds that everybody waits, and not before a stopped builder unit has used all that it can have
// (TagNet-farm §IV.B).
func (m *model) checkSlotsUsed(t *rapid.T, r *Registers, stopped []bool) {
	most := uint64(0)
	for j := range stopped {
		if stopped[j] {
			most = max(most, r.Bus[j].Used.Now)
		}
	}
	if want := min(m.core.cfg.Slots, m.core.cfg.LookAhead); most != uint64(want) || m.core.waitReason != WaitForSlots &&
		m.core.waitReason != WaitForLookAhead {
		t.Fatalf("it waits for %s when a stopped builder unit has %d MEPs of %d", m.core.waitReason, most, want)
	}
}

// answerAlive builds what is with builder units that are not stopped.
func (m *model) answerAlive(t *rapid.T, stopped []bool) {
	for key, mep := range m.owner {
		if tok := m.tokens[mep]; !stopped[key[0]] {
			m.answer(t, tok, Built)
		}
	}
}

// TestReachFitsReadoutUnits has readout units that keep, from the watermark on, twice what may be in flight, as they do
// of small MEPs. However far the look-ahead goes, they do not fill up behind a builder unit that has stopped with all
// it can have, or whose sink is stuck with a MEP.
func TestReachFitsReadoutUnits(t *testing.T) {
	for _, tc := range []struct {
		policy Policy
		stuck  func(mep uint64, bu uint16) bool
	}{
		{Skip, func(_ uint64, bu uint16) bool { return bu == 0 }},
		{Skip, func(mep uint64, _ uint16) bool { return mep == 0 }},
		{Wait, func(mep uint64, _ uint16) bool { return mep == 0 }},
	} {
		const slots, bus = 2, 3
		core := newAllocator(t, Config{
			RUs:          names("ru", 1),
			BUs:          names("bu", bus),
			Slots:        slots,
			LookAhead:    100,
			Packing:      1,
			NoSlotPolicy: tc.policy,
		})
		core.Start()
		for core.counters.Built < 1000 {
			read := core.released + 2*slots*bus
			must(t, core.ApplyUpdate(0, Update{ReadBelow: read, Events: read}))
			var batch Batch
			batch.Reset(core.NextCycle(), core.PlacesPerCycle())
			if core.Issue(&batch) == 0 {
				t.Fatalf("%s: it waits for %q with %d read: %+v", tc.policy, core.waitReason, read, core.Registers())
			}
			var done []Token
			core.forEachUnfinished(func(mep uint64, r *mepRecord) {
				if !tc.stuck(mep, r.bu) {
					done = append(done, Token{
						MEP:     mep,
						BU:      r.bu,
						Slot:    r.slot,
						Attempt: r.attempt,
					})
				}
			})
			for _, x := range done {
				must(t, core.ApplyFeedback(int(x.BU), x.built(1)))
			}
		}
	}
}
