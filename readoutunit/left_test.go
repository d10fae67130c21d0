package readoutunit

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// leftModel plays scheduler, builder units and network to one readout unit while builder units are excluded, come back
// and are lost.
type leftModel struct {
	o       Order
	slots   int
	cycle   uint64
	mep     uint64
	free    [][]uint32                 // by builder unit
	known   map[[2]uint64]tagnet.Token // tokens whose window has not been granted, by builder unit and slot
	sent    []uint64
	out     []bool // excluded, and not settled or not back
	settled []bool // by exclusion
	who     []int  // builder unit of each exclusion

	tokens, written uint64
}

// TestExclusionsKeepTheAccounts holds, for every order of events: each token comes to one end, an exclusion is settled
// once and only when nothing of it is under way, nothing is sent to a builder unit that is out, and the unit never
// stops.
func TestExclusionsKeepTheAccounts(t *testing.T) {
	const bus, slots = 3, 2
	orders := map[string]func() Order{
		"shift":        func() Order { return NewShift(0, InOrder(2, bus), bus, slots, false) },
		"shift, fence": func() Order { return NewShift(1, InOrder(2, bus), bus, slots, true) },
		"shift, wide": func() Order {
			s := NewShift(1, InOrder(2, bus), bus, slots, true)
			s.Widen(3)
			return s
		},
		"free": func() Order { return newFree(bus, slots) },
		"pull": func() Order { return NewPulled(bus, slots) },
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &leftModel{
					o:     order(),
					slots: slots,
					known: map[[2]uint64]tagnet.Token{},
					out:   make([]bool, bus),
				}
				for range bus {
					m.free = append(m.free, []uint32{0, 1})
				}
				t.Repeat(map[string]func(*rapid.T){
					"cycle": m.newCycle, "grant": m.grant, "step": m.step, "complete": m.complete, "exclude": m.exclude,
					"include": m.include,
					"lose":    m.lose, "": m.check,
				})
			})
		})
	}
}

func (m *leftModel) newCycle(t *rapid.T) {
	c := make([]tagnet.Token, len(m.free))
	for bu := range c {
		c[bu] = none
		if n := len(m.free[bu]); n > 0 && !m.out[bu] && rapid.Bool().Draw(t, "token") {
			c[bu] = tagnet.Token{
				MEP:     m.mep,
				Slot:    m.free[bu][n-1],
				BU:      uint16(bu),
				Attempt: 1,
			}
			m.free[bu] = m.free[bu][:n-1]
			m.mep++
			m.tokens++
			if !m.o.Lost(bu) {
				m.known[[2]uint64{uint64(bu), uint64(c[bu].Slot)}] = c[bu]
			}
		}
	}
	if err := m.o.Cycle(batch(m.cycle, c), 0); err != nil {
		t.Fatal(err)
	}
	m.cycle++
}

// grant gives a window for any token that was told, withdrawn or not.
func (m *leftModel) grant(t *rapid.T) {
	if len(m.known) == 0 {
		t.Skip("nothing to grant")
	}
	var keys [][2]uint64
	for k := range m.known {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
	k := rapid.SampledFrom(keys).Draw(t, "token")
	tk := m.known[k]
	delete(m.known, k)
	g := placing.Grant{
		Slot:    tk.Slot,
		Attempt: 1,
		MEP:     tk.MEP,
		Window:  1,
		Gen:     1,
		Length:  4,
	}
	if err := m.o.Grant(int(k[0]), &g); err != nil {
		t.Fatal(err)
	}
}

// step does what the unit's turn says.
func (m *leftModel) step(t *rapid.T) {
	switch turn, n := m.o.Turn(); turn {
	case Send:
		x := m.o.At(n)
		if x.Stage != stageGranted || m.out[x.BU] || m.o.Lost(int(x.BU)) {
			t.Fatalf("sends %+v to builder unit %d, which is out", x, x.BU)
		}
		most := rapid.IntRange(1, 3).Draw(t, "parts")
		places := m.o.Serve(n, most, nil)
		if len(places) < 1 || len(places) > most || places[0] != n {
			t.Fatalf("places %v are served, where %d is the first of at most %d", places, n, most)
		}
		for _, n := range places {
			if y := m.o.At(n); y.BU != x.BU || y.Stage != stageSent {
				t.Fatalf("%+v goes along with %+v", y, x)
			}
		}
		m.sent = append(m.sent, places...)
	case Pass:
		m.o.Passed(m.o.Ahead())
	}
}

func (m *leftModel) complete(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing is under way")
	}
	i := rapid.IntRange(0, len(m.sent)-1).Draw(t, "write")
	x := *m.o.At(m.sent[i])
	if err := m.o.Complete(m.sent[i : i+1]); err != nil {
		t.Fatal(err)
	}
	m.sent = slices.Delete(m.sent, i, i+1)
	m.written++
	if x.Stage == stageSent { // the builder unit gives the slot back
		m.free[x.BU] = append(m.free[x.BU], x.Slot)
	}
}

func (m *leftModel) exclude(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.out)-1).Draw(t, "bu")
	if m.out[bu] {
		t.Skip("it is out")
	}
	m.out[bu] = true
	m.o.Withdraw(tagnet.Withdrawal{BU: uint16(bu), Before: m.cycle})
	m.settled, m.who = append(m.settled, false), append(m.who, bu)
}

// include lets a builder unit back whose exclusion is settled: it has forgotten all it had.
func (m *leftModel) include(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.out)-1).Draw(t, "bu")
	last := len(m.who) - 1
	for last >= 0 && m.who[last] != bu {
		last--
	}
	if !m.out[bu] || !m.settled[last] {
		t.Skip("it cannot come back")
	}
	m.out[bu], m.free[bu] = false, []uint32{0, 1}
	for s := range uint64(m.slots) {
		delete(m.known, [2]uint64{uint64(bu), s})
	}
}

func (m *leftModel) lose(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
		t.Skip("not now")
	}
	bu := rapid.IntRange(0, len(m.out)-1).Draw(t, "bu")
	m.sent = slices.DeleteFunc(m.sent, func(n uint64) bool { return int(m.o.At(n).BU) == bu })
	m.o.Lose(bu)
}

func (m *leftModel) check(t *rapid.T) {
	for x, ok := m.o.Settled(); ok; x, ok = m.o.Settled() {
		n := x.Number
		if n >= uint64(len(m.settled)) || m.settled[n] {
			t.Fatalf("settles exclusion %d of %d, or twice", n, len(m.settled))
		}
		m.settled[n] = true
		if times := len(slices.DeleteFunc(slices.Clone(m.who[:n+1]),
			func(bu int) bool { return bu != m.who[n] })); x.BU != m.who[n] || x.Times != uint32(times) {
			t.Fatalf("settles %+v, where that is the exclusion number %d of builder unit %d", x, times, m.who[n])
		}
		if m.o.Lost(m.who[n]) {
			t.Fatalf("settles an exclusion of builder unit %d, to which it has no link", m.who[n])
		}
		for _, w := range m.sent {
			if x := m.o.At(w); int(x.BU) == m.who[n] && x.Stage == stageLeft {
				t.Fatalf("settles an exclusion of which %+v is under way", x)
			}
		}
	}
	left := m.o.Leftovers()
	if ends := m.written + left.Withdrawn + m.o.Unasked() + uint64(m.o.Open()+m.o.LeftWrites()); ends != m.tokens {
		t.Fatal(fmt.Sprintf("%d tokens came, and there are %d: %d written, %+v, %d open, %d left", m.tokens, ends, m.written,
			left, m.o.Open(), m.o.LeftWrites()))
	}
	// Whatever is out holds up nobody: a turn that waits for a window waits for a builder unit that is there.
	if turn, n := m.o.Turn(); turn == ForGrant && m.o.Open() > 0 {
		if _, phased := m.o.(*Shift); phased {
			if x := m.o.At(n); m.out[x.BU] || m.o.Lost(int(x.BU)) {
				t.Fatalf("waits for builder unit %d, which is out", x.BU)
			}
		}
	}
}
