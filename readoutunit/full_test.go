package readoutunit

import (
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event/placing"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// newRigOfEight makes a rig of eight builder units, at ranks 1 to 8, with so many slots and buffers, in no order. The
// first one has stopped.
func newRigOfEight(t *testing.T, blocks, slots, buffers int) *rig {
	t.Helper()
	return newRig(t, &scripted{blocks: blocks, end: io.EOF, size: 64}, func(r *rig, c *Config) {
		c.BURanks = []int{1, 2, 3, 4, 5, 6, 7, 8}
		free := newFree(8, slots)
		free.enablePreGranted()
		c.Transfers, c.Retention = free, newRetention(t, 1, 64, buffers)
		r.net.slots, r.net.stopped = slots, map[int]bool{1: true}
	})
}

// TestFullLinkHoldsUpNobody: of eight builder units one stops, and has slots for more writes than there may be. All of
// the others get what they have tokens for. What went to the stopped one waits, is bounded, and goes when it goes on.
func TestFullLinkHoldsUpNobody(t *testing.T) {
	const cycles, slots = 8*burstsPerBU + 40, 600
	r := newRigOfEight(t, 8*cycles, slots, 16*cycles) // the reader waits for an eighth of them
	r.until("all MEPs", func() bool { return r.sched.last().ReadBelow == 8*cycles })
	for c := range uint64(cycles) { // each alone: so each part is a write of its own
		var tokens []core.Token
		for bu := range uint64(8) {
			tokens = append(tokens, newToken(8*c+bu, uint32(c)))
		}
		r.sched.send(c, 0, tokens)
		r.until("the writes of seven builder units", func() bool { return r.unit.Stats().PartsWritten == 7*(c+1) })
	}
	if s := r.unit.Stats(); len(r.net.kept) != burstsPerBU || s.TimesLinkFull != 1 {
		t.Errorf("%d writes are under way to the builder unit that has stopped: %+v", len(r.net.kept), s)
	}
	r.net.resume(t, 1)
	r.until("all writes", func() bool { return r.unit.Stats().PartsWritten == 8*cycles })
}

// TestStoppedBuilderKeepsNoBuffers: what is under way to one that has stopped keeps no buffers of others once the
// scheduler says that it is held up. Its bytes stay as they are until it goes on.
func TestStoppedBuilderKeepsNoBuffers(t *testing.T) {
	const meps, slots, buffers = 8 * 50, 64, 24
	r := newRigOfEight(t, meps, slots, buffers)
	r.until("the first MEPs", func() bool { return r.sched.last().ReadBelow >= 8 })
	var tokens []core.Token
	for bu := range uint64(8) {
		tokens = append(tokens, newToken(bu, 0))
	}
	r.sched.send(0, 0, tokens)
	r.until("the writes of seven builder units", func() bool { return r.unit.Stats().PartsWritten == 7 })
	tokens[0] = none
	mep, cycle := uint64(8), uint64(1)
	for ; mep+7 <= meps; cycle++ {
		t := tagnet.Tokens{State: core.Running, Released: mep, HeldUp: []uint64{0}}
		r.sched.tokens <- t
		r.until("the next MEPs", func() bool { return r.sched.last().ReadBelow >= min(meps, mep+7) })
		for i := range tokens[1:] {
			tokens[1+i] = newToken(mep, uint32(cycle%slots))
			mep++
		}
		r.sched.tokens <- tagnet.Tokens{
			State:    core.Running,
			Batch:    *batch(cycle, slices.Clone(tokens)),
			Released: t.Released,
			HeldUp:   t.HeldUp,
		}
		r.until("the writes of seven builder units", func() bool { return r.unit.Stats().PartsWritten == mep-1 })
	}
	if s := r.unit.Stats(); s.RelocatedWrites != 1 || s.RetainedBytesHigh > buffers*64*2 {
		t.Errorf("%+v", s)
	}
	r.net.resume(t, 1)
	r.until("all writes", func() bool { return r.unit.Stats().PartsWritten == mep })
}

// TestFullAgainstModel grants, serves, and has links full and not, at random: what waits for a link that takes it is
// named, in the order of its builder unit, and nothing that waits for another; in the end everything is served.
func TestFullAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bus := rapid.IntRange(1, 4).Draw(t, "bus")
		m := &fullModel{
			f:    newPulled(bus, 64),
			wait: make([][]uint64, bus),
			full: make([]bool, bus),
			slot: make([]int, bus),
		}
		t.Repeat(map[string]func(*rapid.T){"grant": m.grant, "serve": m.serve, "full": m.turn, "": m.check})
		for bu := range bus {
			m.full[bu] = false
			m.f.setLinkFull(bu, false)
		}
		for m.waiting() {
			m.check(t)
			m.serve(t)
		}
		m.check(t)
	})
}

type fullModel struct {
	f     *Transfers
	wait  [][]uint64 // by builder unit: MEPs that wait
	full  []bool
	slot  []int // by builder unit: the next one to be used
	cycle uint64
}

func (m *fullModel) waiting() bool {
	return slices.ContainsFunc(m.wait, func(w []uint64) bool { return len(w) > 0 })
}

// grant gives a cycle with one token, and its window.
func (m *fullModel) grant(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.wait)-1).Draw(t, "bu")
	if len(m.wait[bu]) == 64 {
		t.Skip("all slots are taken")
	}
	tokens, slot := slices.Repeat([]core.Token{none}, len(m.wait)), uint32(m.slot[bu]%64)
	tokens[bu] = newToken(m.cycle, slot)
	if err := m.f.AddCycle(batch(m.cycle, tokens), 0); err != nil {
		t.Fatal(err)
	}
	if err := m.f.ApplyGrant(bu, &placing.Grant{
		MEP:     m.cycle,
		Slot:    slot,
		Attempt: 1,
		Window:  1,
		Gen:     1,
		Length:  4,
	}); err != nil {
		t.Fatal(err)
	}
	m.wait[bu] = append(m.wait[bu], m.cycle)
	m.slot[bu]++
	m.cycle++
}

// serve does what Next says, and has its outcome.
func (m *fullModel) serve(t *rapid.T) {
	action, n := m.f.Next()
	if action != Send {
		t.Skip(action)
	}
	bu := m.f.TransferAt(n).BU
	places := m.f.Serve(n, rapid.IntRange(1, 3).Draw(t, "most"), nil)
	for i, n := range places {
		if mep := m.f.TransferAt(n).MEP; m.f.TransferAt(n).BU != bu || mep != m.wait[bu][i] {
			t.Fatalf("MEP %d is served where %v wait", mep, m.wait[bu])
		}
	}
	m.wait[bu] = m.wait[bu][len(places):]
	if err := m.f.Complete(places); err != nil {
		t.Fatal(err)
	}
}

func (m *fullModel) turn(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.wait)-1).Draw(t, "bu")
	m.full[bu] = !m.full[bu]
	m.f.setLinkFull(bu, m.full[bu])
}

func (m *fullModel) check(t *rapid.T) {
	want := WaitToken
	for bu, w := range m.wait {
		if len(w) > 0 && !m.full[bu] {
			want = Send
		} else if len(w) > 0 && want == WaitToken {
			want = WaitLink
		}
	}
	action, n := m.f.Next()
	if action != want {
		t.Fatalf("the unit %s, with %v waiting and %v full", action, m.wait, m.full)
	}
	if action == Send {
		if bu := m.f.TransferAt(n).BU; m.full[bu] || m.f.TransferAt(n).MEP != m.wait[bu][0] {
			t.Fatalf("MEP %d to builder unit %d is named, with %v waiting and %v full", m.f.TransferAt(n).MEP, bu, m.wait,
				m.full)
		}
	}
	if most := 2*len(m.wait)*64 + 64; len(m.f.order.(*free).grantedPlaces.places) > 2*most {
		t.Fatalf("%d places are queued", len(m.f.order.(*free).grantedPlaces.places))
	}
}
