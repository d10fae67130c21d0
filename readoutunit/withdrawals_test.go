package readoutunit

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event/placing"
	"ringlet/tagnet/core"
)

// exclusionModel plays scheduler, builder units and network to one readout unit while builder units are excluded, come
// back and are lost.
type exclusionModel struct {
	o          *Transfers
	slots      int
	cycle      uint64
	mep        uint64
	free       [][]uint32               // by builder unit
	ungranted  map[[2]uint64]core.Token // tokens whose window has not been granted, by builder unit and slot
	sent       []uint64
	excluded   []bool // excluded, and not quiesced or not back
	quiesced   []bool // by exclusion
	excludedBU []int  // builder unit of each exclusion

	tokens, written uint64
}

// TestExclusionsKeepTheAccounts holds, for every order of events: each token comes to one end, an exclusion is quiesced
// once and only when nothing of it is under way, nothing is sent to a builder unit that is out, and the unit never
// stops.
func TestExclusionsKeepTheAccounts(t *testing.T) {
	const bus, slots = 3, 2
	orders := map[string]func() *Transfers{
		"shift":        func() *Transfers { return newShift(0, SeatsInOrder(2, bus), bus, slots, false) },
		"shift, fence": func() *Transfers { return newShift(1, SeatsInOrder(2, bus), bus, slots, true) },
		"shift, wide": func() *Transfers {
			s := newShift(1, SeatsInOrder(2, bus), bus, slots, true)
			s.setMaxCycles(3)
			return s
		},
		"push": func() *Transfers { return newPush(1, 2, bus, slots) },
		"free": func() *Transfers { return newFree(bus, slots) },
		"pull": func() *Transfers { return newPulled(bus, slots) },
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &exclusionModel{
					o:         order(),
					slots:     slots,
					ungranted: map[[2]uint64]core.Token{},
					excluded:  make([]bool, bus),
				}
				for range bus {
					m.free = append(m.free, []uint32{0, 1})
				}
				t.Repeat(map[string]func(*rapid.T){
					"cycle": m.newCycle, "grant": m.grant, "step": m.step, "complete": m.complete, "exclude": m.exclude,
					"include": m.include, "read": m.read,
					"lose": m.lose, "": m.check,
				})
			})
		})
	}
}

func (m *exclusionModel) newCycle(t *rapid.T) {
	c := make([]core.Token, len(m.free))
	for bu := range c {
		c[bu] = none
		if n := len(m.free[bu]); n > 0 && !m.excluded[bu] && rapid.Bool().Draw(t, "token") {
			c[bu] = core.Token{
				MEP:     m.mep,
				Slot:    m.free[bu][n-1],
				BU:      uint16(bu),
				Attempt: 1,
			}
			m.free[bu] = m.free[bu][:n-1]
			m.mep++
			m.tokens++
			if !m.o.isLost(bu) {
				m.ungranted[[2]uint64{uint64(bu), uint64(c[bu].Slot)}] = c[bu]
			}
		}
	}
	if err := m.o.AddCycle(batch(m.cycle, c), 0); err != nil {
		t.Fatal(err)
	}
	m.cycle++
}

// grant gives a window for any token that was issued, withdrawn or not.
func (m *exclusionModel) grant(t *rapid.T) {
	if len(m.ungranted) == 0 {
		t.Skip("nothing to grant")
	}
	var keys [][2]uint64
	for k := range m.ungranted {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
	k := rapid.SampledFrom(keys).Draw(t, "token")
	tk := m.ungranted[k]
	if x := m.o.latestIn(int(k[0]), uint32(k[1])); x != nil && x.Stage == stageCredit {
		t.Skip("it is not announced")
	}
	delete(m.ungranted, k)
	g := placing.Grant{
		Slot:    tk.Slot,
		Attempt: 1,
		MEP:     tk.MEP,
		Window:  1,
		Gen:     1,
		Length:  4,
	}
	if err := m.o.ApplyGrant(int(k[0]), &g); err != nil {
		t.Fatal(err)
	}
}

// read lets the unit read, if tokens come before.
func (m *exclusionModel) read(t *rapid.T) {
	if m.o.credits == nil {
		t.Skip("all is read")
	}
	if err := m.o.credits.markRead(m.o.credits.readBelow + rapid.Uint64Range(0, 4).Draw(t, "more")); err != nil {
		t.Fatal(err)
	}
}

// step does the unit's next action.
func (m *exclusionModel) step(t *rapid.T) {
	switch action, n := m.o.Next(); action {
	case Send:
		x := m.o.TransferAt(n)
		if c := m.o.credits; c != nil && x.MEP >= c.readBelow {
			t.Fatalf("sends %+v, and has read only to %d", x, c.readBelow)
		}
		if x.Stage != stageGranted || m.excluded[x.BU] || m.o.isLost(int(x.BU)) {
			t.Fatalf("sends %+v to builder unit %d, which is out", x, x.BU)
		}
		most := rapid.IntRange(1, 3).Draw(t, "parts")
		places := m.o.Serve(n, most, nil)
		if len(places) < 1 || len(places) > most || places[0] != n {
			t.Fatalf("places %v are served, where %d is the first of at most %d", places, n, most)
		}
		for _, n := range places {
			if y := m.o.TransferAt(n); y.BU != x.BU || y.Stage != stageSent {
				t.Fatalf("%+v goes along with %+v", y, x)
			}
		}
		m.sent = append(m.sent, places...)
	case AdvancePhase:
		m.o.AdvancePhase(max(1, m.o.cyclesAhead()))
	}
}

func (m *exclusionModel) complete(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing is under way")
	}
	i := rapid.IntRange(0, len(m.sent)-1).Draw(t, "write")
	x := *m.o.TransferAt(m.sent[i])
	if err := m.o.Complete(m.sent[i : i+1]); err != nil {
		t.Fatal(err)
	}
	m.sent = slices.Delete(m.sent, i, i+1)
	m.written++
	if x.Stage == stageSent { // the builder unit gives the slot back
		m.free[x.BU] = append(m.free[x.BU], x.Slot)
	}
}

func (m *exclusionModel) exclude(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.excluded)-1).Draw(t, "bu")
	if m.excluded[bu] {
		t.Skip("it is out")
	}
	m.excluded[bu] = true
	m.o.Withdraw(core.Withdrawal{BU: uint16(bu), BeforeCycle: m.cycle})
	m.quiesced, m.excludedBU = append(m.quiesced, false), append(m.excludedBU, bu)
}

// include lets a builder unit back whose exclusion is quiesced: it has forgotten all it had.
func (m *exclusionModel) include(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.excluded)-1).Draw(t, "bu")
	last := len(m.excludedBU) - 1
	for last >= 0 && m.excludedBU[last] != bu {
		last--
	}
	if !m.excluded[bu] || !m.quiesced[last] {
		t.Skip("it cannot come back")
	}
	m.excluded[bu], m.free[bu] = false, []uint32{0, 1}
	for s := range uint64(m.slots) {
		delete(m.ungranted, [2]uint64{uint64(bu), s})
	}
}

func (m *exclusionModel) lose(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
		t.Skip("not now")
	}
	bu := rapid.IntRange(0, len(m.excluded)-1).Draw(t, "bu")
	m.sent = slices.DeleteFunc(m.sent, func(n uint64) bool { return int(m.o.TransferAt(n).BU) == bu })
	m.o.markLost(bu)
}

func (m *exclusionModel) check(t *rapid.T) {
	for x, ok := m.o.nextQuiesced(); ok; x, ok = m.o.nextQuiesced() {
		n := x.Number
		if n >= uint64(len(m.quiesced)) || m.quiesced[n] {
			t.Fatalf("confirms exclusion %d of %d, or twice", n, len(m.quiesced))
		}
		m.quiesced[n] = true
		if times := len(slices.DeleteFunc(slices.Clone(m.excludedBU[:n+1]),
			func(bu int) bool { return bu != m.excludedBU[n] })); x.BU != m.excludedBU[n] || x.Count != uint32(times) {
			t.Fatalf("confirms %+v, where that is the exclusion number %d of builder unit %d", x, times, m.excludedBU[n])
		}
		if m.o.isLost(m.excludedBU[n]) {
			t.Fatalf("confirms an exclusion of builder unit %d, to which it has no link", m.excludedBU[n])
		}
		for _, w := range m.sent {
			if x := m.o.TransferAt(w); int(x.BU) == m.excludedBU[n] && x.Stage == stageOrphaned {
				t.Fatalf("confirms an exclusion of which %+v is under way", x)
			}
		}
	}
	stats := m.o.WithdrawalStats
	if ends := m.written + stats.WithdrawnTokens + m.o.UnrequestedTransfers() +
		uint64(m.o.OpenTransfers()+m.o.orphanedWrites()); ends != m.tokens {
		t.Fatal(fmt.Sprintf("%d tokens came, and there are %d: %d written, %+v, %d open, %d left", m.tokens, ends, m.written,
			stats, m.o.OpenTransfers(), m.o.orphanedWrites()))
	}
	// Whatever is out holds up nobody: an action that waits for a window waits for a builder unit that is there.
	if action, n := m.o.Next(); action == WaitGrant && m.o.OpenTransfers() > 0 {
		if _, phased := m.o.order.(*shift); phased {
			if x := m.o.TransferAt(n); m.excluded[x.BU] || m.o.isLost(int(x.BU)) {
				t.Fatalf("waits for builder unit %d, which is out", x.BU)
			}
		}
	}
}
