package core

import (
	"slices"

	"pgregory.net/rapid"
)

// check holds after every step.
func (m *model) check(t *rapid.T) {
	r := m.core.Registers()
	c := r.Counters
	if c.Issued != c.Built+c.Discarded+c.Rejected+c.Abandoned+r.InFlight {
		t.Fatalf("MEPs do not add up: %+v", r)
	}
	if int(c.Built+c.Discarded+c.Rejected) != len(m.done) || int(c.Issued) != len(m.tokens) {
		t.Fatalf("the records have %+v, the model %d outcomes of %d MEPs", c, len(m.done), len(m.tokens))
	}
	m.checkReleased(t, r)
	if r.Cycles.Now > r.Cycles.Capacity || r.NextMep-r.Released > uint64(m.core.cfg.Window) {
		t.Fatalf("look-ahead or window exceeded: %+v", r)
	}
	m.checkSlots(t, r)
	m.checkGroups(t, r)
}

// checkGroups holds that no group has two running events, and that a loose view keeps to its look-ahead.
func (m *model) checkGroups(t *rapid.T, r *Registers) {
	running := make([]uint64, len(m.core.cfg.Rules.Groups))
	for key := range m.owner {
		for g, members := range m.core.cfg.Rules.Groups {
			if slices.Contains(members, int(key[0])) {
				running[g]++
			}
		}
	}
	for g, c := range r.Groups {
		if c.Running != running[g] || c.Running > 1 || c.Most > 1 {
			t.Fatalf("group %d: %d events running, the core counts %+v", g, running[g], c)
		}
	}
	if r.Loose && len(m.owner) > m.core.cfg.LookAhead*m.core.placesPerCycle {
		t.Fatalf("%d tokens out with a look-ahead of %d", len(m.owner), m.core.cfg.LookAhead)
	}
}

// checkReleased holds that below the watermark all that has no outcome is held up, that the watermark stands at a MEP
// without one, and that what is kept is bounded.
func (m *model) checkReleased(t *rapid.T, r *Registers) {
	held := m.core.heldUp.meps
	if r.Released < m.low || uint64(len(held)) != r.HeldUp {
		t.Fatalf("released went from %d to %d, with %d of %d held up", m.low, r.Released, len(held), r.HeldUp)
	}
	m.low = r.Released
	var want []uint64
	for mep := m.core.cfg.FirstMEP; mep < r.Released; mep++ {
		if _, ok := m.done[mep]; !ok {
			want = append(want, mep)
		}
	}
	if !slices.Equal(held, want) {
		t.Fatalf("below %d %v are held up, and %v have no outcome", r.Released, held, want)
	}
	if _, ok := m.done[r.Released]; ok {
		t.Fatalf("released is %d, which has its outcome", r.Released)
	}
	// What can be in flight, and a cycle; a small window bounds the records, not what is held up beside it.
	kept, most := len(held)+int(r.NextMep-r.Released), (m.core.cfg.LookAhead+1)*m.core.placesPerCycle
	if kept > most {
		t.Fatalf("%d MEPs are kept, %d of them held up; at most %d should be", kept, len(held), most)
	}
}

func (m *model) checkSlots(t *rapid.T, r *Registers) {
	used := make([]int, len(m.out))
	for key := range m.owner {
		used[key[0]]++
	}
	blocked, active := 0, 0
	for j, b := range r.Bus {
		if b.Excluded != m.out[j] {
			t.Fatalf("bu%d: excluded is %v, want %v", j, b.Excluded, m.out[j])
		}
		if b.Excluded {
			continue
		}
		active++
		if b.Free == 0 {
			blocked++
		}
		if int(b.Free)+used[j] != m.core.cfg.creditPerBU() || b.Used.Now != uint64(used[j]) {
			t.Fatalf("bu%d: %d free and %d used of %d slots", j, b.Free, used[j], m.core.cfg.creditPerBU())
		}
	}
	if blocked != m.core.blockedBUs || active != m.core.activeBUs {
		t.Fatalf("%d of %d blocked, the core counts %d of %d", blocked, active, m.core.blockedBUs, m.core.activeBUs)
	}
}

// finish gives every feedback and expects the core to drain in a bounded number of steps.
func (m *model) finish(t *rapid.T) {
	_ = m.core.Resume()
	for j := range m.out {
		if m.core.IncludeBU(j) == nil {
			m.out[j] = false
		}
	}
	for ru := range m.read {
		if !m.gone[ru] {
			m.sendUpdate(t, ru, m.total)
		}
	}
	for bu := range m.out {
		must(t, m.core.ackAbsences(bu, uint64(len(m.core.absences)), len(m.core.absences)))
		m.ackedAbsences[bu] = len(m.core.absences)
	}
	for step := 0; m.core.State() != Drained; step++ {
		if step > 1000 {
			t.Fatalf("does not drain: %+v", m.core.Registers())
		}
		m.issue(t)
		if m.core.State() != Drained && len(m.owner) == 0 {
			t.Fatalf("nothing is in flight and nothing is issued: %+v", m.core.Registers())
		}
		m.answerOne(t) // one at a time, so that waiting for a whole cycle shows
		m.check(t)
	}
	r := m.core.Registers()
	c := r.Counters
	if c.EventsIssued != c.EventsBuilt+c.EventsDiscarded+c.EventsRejected || r.Released != r.NextMep {
		t.Fatalf("drained, but not in balance: %+v", r)
	}
	if m.limit != NoMEP || slices.Contains(m.gone, true) {
		return
	}
	if r.NextMep != m.core.cfg.FirstMEP+m.total || c.EventsIssued != m.events {
		t.Fatalf("drained at MEP %d with %d events, want %d MEPs and %d events", r.NextMep, c.EventsIssued, m.total, m.events)
	}
}

// answerOne builds the newest MEP in flight.
func (m *model) answerOne(t *rapid.T) {
	for k := m.core.nextMEP; k > m.core.cfg.FirstMEP; k-- {
		tok := m.tokens[k-1]
		if mep, ok := m.owner[[2]uint32{uint32(tok.BU), tok.Slot}]; ok && mep == k-1 {
			m.answer(t, tok, Built)
			return
		}
	}
}
