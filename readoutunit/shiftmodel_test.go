package readoutunit

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// scheduleModel drives a Shift at random beside a model that remembers every token of the run.
type scheduleModel struct {
	s                         *Transfers
	ru, rus, bus, slots       int
	places                    []Transfer // all that ever came, by number
	cycles, phase, cyclesDone int        // cycles that came; phases done of the current; cycles done
	mep                       uint64
	gen                       uint32
}

func newScheduleModel(t *rapid.T) *scheduleModel {
	m := &scheduleModel{
		rus: rapid.IntRange(1, 5).Draw(t, "rus"), bus: rapid.IntRange(1, 5).Draw(t, "bus"),
		slots: rapid.IntRange(1, 3).Draw(t, "slots"),
	}
	m.ru = rapid.IntRange(0, m.rus-1).Draw(t, "ru")
	m.s = newShift(m.ru, SeatsInOrder(m.rus, m.bus), m.bus, m.slots, false)
	return m
}

// latest is the newest transfer into a slot, or nil.
func (m *scheduleModel) latest(bu int, slot uint32) *Transfer {
	for i := len(m.places) - 1; i >= 0; i-- {
		if p := &m.places[i]; p.Stage != stageEmpty && i%m.bus == bu && p.Slot == slot {
			return p
		}
	}
	return nil
}

// inStage lists the numbers of the transfers in a stage.
func (m *scheduleModel) inStage(stage Stage) []uint64 {
	var n []uint64
	for i := range m.places {
		if m.places[i].Stage == stage {
			n = append(n, uint64(i))
		}
	}
	return n
}

// cycle draws a cycle whose tokens are all good.
func (m *scheduleModel) cycle(t *rapid.T) {
	var c []core.Token
	for bu := range m.bus {
		slot := uint32(rapid.IntRange(0, m.slots-1).Draw(t, "slot"))
		if x := m.latest(bu, slot); x != nil && x.Stage < stageSent || rapid.IntRange(0, 4).Draw(t, "empty") == 0 {
			c = append(c, none)
			m.places = append(m.places, Transfer{})
			continue
		}
		c = append(c, newToken(m.mep, slot))
		full := newToken(m.mep, slot)
		full.BU = uint16(bu)
		m.places = append(m.places, Transfer{Token: full, Stage: stageAnnounced})
		m.mep++
	}
	if err := m.s.AddCycle(batch(uint64(m.cycles), c), 0); err != nil {
		t.Fatal(err)
	}
	m.cycles++
}

// badCycle draws one that must be refused without effect.
func (m *scheduleModel) badCycle(t *rapid.T) {
	c := slices.Repeat([]core.Token{none}, m.bus)
	first, bu := uint64(m.cycles), rapid.IntRange(0, m.bus-1).Draw(t, "bu")
	c[0] = newToken(m.mep, 0)
	var token *tokenError
	var cycle *cycleError
	var want any = &token
	switch rapid.IntRange(0, 3).Draw(t, "fault") {
	case 0:
		c[bu] = newToken(m.mep, uint32(m.slots+rapid.IntRange(0, 2).Draw(t, "beyond")))
	case 1:
		first, want = first+1, &cycle
	case 2:
		c, want = append(c, none), &cycle
	default:
		open := slices.Concat(m.inStage(stageAnnounced), m.inStage(stageGranted))
		if len(open) == 0 {
			t.Skip("no slot is taken")
		}
		x := m.places[rapid.SampledFrom(open).Draw(t, "open")]
		c[x.BU] = newToken(m.mep, x.Slot)
	}
	m.refused(t, want, func() error { return m.s.AddCycle(batch(first, c), 0) })
}

// refused holds that f fails with the type of want and changes nothing.
func (m *scheduleModel) refused(t *rapid.T, want any, f func() error) {
	before, order := *m.s, *m.s.order.(*shift)
	before.places = slices.Clone(m.s.places)
	before.builders = slices.Clone(m.s.builders)
	for i := range before.builders {
		b := &before.builders[i]
		b.latestPlaces, b.preGranted = slices.Clone(b.latestPlaces), slices.Clone(b.preGranted)
	}
	err := f()
	if want == nil && err == nil || want != nil && !errors.As(err, want) {
		t.Fatalf("the error is %v", err)
	}
	after := *m.s
	// The order has the table: of it only what it decides by is compared.
	if now := m.s.order.(*shift); now.servedCycles != order.servedCycles || !slices.Equal(now.buByPhase, order.buByPhase) {
		t.Fatalf("refused with %v, but the order changed\n%+v to\n%+v", err, order, *now)
	}
	before.order, after.order = nil, nil
	if !reflect.DeepEqual(before, after) {
		t.Fatalf("refused with %v, but it changed\n%+v to\n%+v", err, before, after)
	}
}

func (m *scheduleModel) newGrant(n uint64) placing.Grant {
	m.gen++
	x := &m.places[n]
	return placing.Grant{
		Slot:    x.Slot,
		Attempt: uint32(x.Attempt),
		MEP:     x.MEP,
		Window:  uint32(n),
		Gen:     m.gen,
		Length:  m.gen * 4,
	}
}

func (m *scheduleModel) grant(t *rapid.T) {
	open := m.inStage(stageAnnounced)
	if len(open) == 0 {
		t.Skip("nothing to grant")
	}
	n := rapid.SampledFrom(open).Draw(t, "place")
	g := m.newGrant(n)
	x := &m.places[n]
	if err := m.s.ApplyGrant(int(x.BU), &g); err != nil {
		t.Fatal(err)
	}
	x.Stage, x.Ref, x.GrantedBytes = stageGranted, shmem.Ref{Window: g.Window, Gen: g.Gen}, g.Length
}

// badGrant grants what is not announced, or nearly what is.
func (m *scheduleModel) badGrant(t *rapid.T) {
	g, bu := placing.Grant{Attempt: 1, MEP: m.mep}, rapid.IntRange(0, m.bus-1).Draw(t, "bu")
	old := slices.Concat(m.inStage(stageGranted), m.inStage(stageSent), m.inStage(stageDone))
	if len(old) > 0 && rapid.Bool().Draw(t, "stale") {
		n := rapid.SampledFrom(old).Draw(t, "place") // a duplicate, or stale
		g, bu = m.newGrant(n), int(m.places[n].BU)
	} else if open := m.inStage(stageAnnounced); len(open) > 0 {
		n := rapid.SampledFrom(open).Draw(t, "place")
		g, bu = m.newGrant(n), int(m.places[n].BU)
		switch rapid.IntRange(0, 2).Draw(t, "fault") {
		case 0:
			g.MEP++
		case 1:
			g.Attempt++
		default:
			g.Slot = uint32(m.slots)
		}
	}
	var want *tokenError
	m.refused(t, &want, func() error { return m.s.ApplyGrant(bu, &g) })
}

// step is what a conductor does next: it sends if it may, and then, or if there is nothing to send, goes on.
func (m *scheduleModel) step(t *rapid.T) {
	if m.s.hasRound() != (m.cyclesDone < m.cycles) {
		t.Fatalf("ready is %v with %d of %d cycles over", m.s.hasRound(), m.cyclesDone, m.cycles)
	}
	if !m.s.hasRound() {
		t.Skip("no cycle")
	}
	phases := max(m.rus, m.bus)
	at := (m.ru + m.phase) % phases
	n, ok := m.s.order.(*shift).currentPlace()
	if want := at < m.bus && m.places[m.cyclesDone*m.bus+at].Stage != stageEmpty; ok != want {
		t.Fatalf("in phase %d something to send is %v, not %v", m.phase, ok, want)
	}
	if ok {
		if n != uint64(m.cyclesDone*m.bus+at) {
			t.Fatalf("in phase %d of cycle %d the place is number %d", m.phase, m.cyclesDone, n)
		}
		if m.places[n].Stage != stageGranted {
			t.Skip("not granted")
		}
		m.s.Serve(n, 1, nil)
		m.places[n].Stage = stageSent
	}
	m.s.AdvancePhase(1)
	if m.phase++; m.phase == phases {
		m.phase, m.cyclesDone = 0, m.cyclesDone+1
	}
}

func (m *scheduleModel) complete(t *rapid.T) {
	sent := m.inStage(stageSent)
	if len(sent) == 0 {
		t.Skip("nothing is under way")
	}
	n := rapid.SampledFrom(sent).Draw(t, "place")
	if got := *m.s.TransferAt(n); got != m.places[n] {
		t.Fatalf("%+v, not %+v", got, m.places[n])
	}
	if err := m.s.Complete([]uint64{n}); err != nil {
		t.Fatal(err)
	}
	m.places[n].Stage = stageDone
}

func (m *scheduleModel) badComplete(t *rapid.T) {
	n := uint64(rapid.IntRange(0, len(m.places)+3).Draw(t, "place"))
	if n < uint64(len(m.places)) && m.places[n].Stage == stageSent {
		t.Skip("that one is good")
	}
	m.refused(t, nil, func() error { return m.s.Complete([]uint64{n}) })
}

// check holds that no open transfer is lost and none is invented.
func (m *scheduleModel) check(t *rapid.T) {
	open := 0
	for n := range m.places {
		x := &m.places[n]
		if x.Stage == stageEmpty || x.Stage == stageDone {
			continue
		}
		open++
		if uint64(n) < m.s.firstPlace || *m.s.TransferAt(uint64(n)) != *x {
			t.Fatalf("place %d, %+v, is lost", n, *x)
		}
	}
	if m.s.OpenTransfers() != open {
		t.Fatalf("%d open, %d counted", open, m.s.OpenTransfers())
	}
}

func TestShiftModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newScheduleModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "cycle": m.cycle, "bad cycle": m.badCycle, "grant": m.grant, "grant more": m.grant,
			"bad grant": m.badGrant,
			"step":      m.step, "step on": m.step, "complete": m.complete, "bad complete": m.badComplete,
		})
	})
}

// TestShiftForgets holds that a long run does not keep its past, also when one write of long ago has no outcome for a
// while.
func TestShiftForgets(t *testing.T) {
	s := newShift(0, SeatsInOrder(1, 2), 2, 4, false)
	var late uint64
	for c := range uint64(1000) {
		slot := uint32(c % 4)
		if err := s.AddCycle(batch(c, []core.Token{newToken(2*c, slot), newToken(2*c+1, slot)}), 0); err != nil {
			t.Fatal(err)
		}
		for bu := range 2 {
			if err := s.ApplyGrant(bu, &placing.Grant{Slot: slot, Attempt: 1, MEP: 2*c + uint64(bu)}); err != nil {
				t.Fatal(err)
			}
			n, _ := s.order.(*shift).currentPlace()
			s.Serve(n, 1, nil)
			if c == 100 && bu == 0 {
				late = n
			} else if err := s.Complete([]uint64{n}); err != nil {
				t.Fatal(err)
			}
			s.AdvancePhase(1)
		}
		switch {
		case c < 100 && len(s.places) > 8:
			t.Fatalf("%d places kept in cycle %d", len(s.places), c)
		case c > 100 && c < 500 && len(s.places) != int(2*(c-100))+2:
			t.Fatalf("%d places kept in cycle %d, the late one is of cycle 100", len(s.places), c)
		case c == 500:
			if x := s.TransferAt(late); x.MEP != 200 {
				t.Fatal(x)
			}
			if err := s.Complete([]uint64{late}); err != nil {
				t.Fatal(err)
			}
		case c > 501 && len(s.places) > 8:
			t.Fatalf("%d places kept in cycle %d", len(s.places), c)
		}
	}
}

func TestStageNames(t *testing.T) {
	for s, want := range map[Stage]string{
		stageEmpty:     "empty",
		stageAnnounced: "announced",
		stageGranted:   "granted",
		stageSent:      "sent",
		stageDone:      "done",
	} {
		if s.String() != want {
			t.Errorf("stage %d is called %s", s, s)
		}
	}
}

// circuit is a schedule in steady state: one cycle after the other, all the way through.
type circuit struct {
	s     *Transfers
	b     core.Batch
	cycle uint64
	bytes uint64

	places []uint64 // scratch
}

func newCircuit(rus, bus int) *circuit {
	c := &circuit{s: newShift(0, SeatsInOrder(rus, bus), bus, 4, false)}
	c.b = *batch(0, slices.Repeat([]core.Token{newToken(0, 0)}, bus))
	return c
}

// turn takes one cycle through all its phases.
func (c *circuit) turn() error {
	slot := uint32(c.cycle % 4)
	c.b.FirstCycle = c.cycle
	for i := range c.b.MEPs {
		c.b.MEPs[i], c.b.Slots[i] = c.cycle*uint64(len(c.b.MEPs))+uint64(i), 1<<24|slot
	}
	if err := c.s.AddCycle(&c.b, 0); err != nil {
		return err
	}
	for bu := range c.b.PlacesPerCycle {
		g := placing.Grant{
			Slot:    slot,
			Attempt: 1,
			MEP:     c.b.MEPs[bu],
			Window:  1,
			Gen:     2,
			Length:  128,
		}
		if err := c.s.ApplyGrant(bu, &g); err != nil {
			return err
		}
	}
	for first := c.s.rounds.start; c.s.rounds.start == first; c.s.AdvancePhase(1) {
		n, ok := c.s.order.(*shift).currentPlace()
		if !ok {
			continue
		}
		c.places = c.s.Serve(n, 1, c.places[:0])
		c.bytes += uint64(c.s.TransferAt(n).GrantedBytes)
		if err := c.s.Complete(c.places); err != nil {
			return err
		}
	}
	c.cycle++
	return nil
}

func TestShiftDoesNotAllocate(t *testing.T) {
	c := newCircuit(3, 4)
	run := func() {
		if err := c.turn(); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		run()
	}
	if n := testing.AllocsPerRun(1000, run); n > 0 {
		t.Errorf("%v allocations per cycle", n)
	}
	if c.bytes != c.cycle*4*128 {
		t.Errorf("%d bytes in %d cycles", c.bytes, c.cycle)
	}
}

// BenchmarkShift is the whole way of a token through the core: cycle, grant, send, outcome.
func BenchmarkShift(b *testing.B) {
	c := newCircuit(4, 4)
	for b.Loop() {
		if err := c.turn(); err != nil {
			b.Fatal(err)
		}
	}
	if c.bytes != c.cycle*4*128 {
		b.Fatal("bytes are missing")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(c.cycle*4), "ns/token")
	b.ReportAllocs()
}
