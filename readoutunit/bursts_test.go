package readoutunit

import (
	"testing"

	"pgregory.net/rapid"

	"ringlet/event/placing"
	"ringlet/tagnet/core"
)

// TestBurstsAgainstModel opens, fills, sends and completes bursts at random, and holds what is needed against what is
// under way.
func TestBurstsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bus := rapid.IntRange(1, 3).Draw(t, "bus")
		m := &burstModel{s: newBurstPool(bus), bus: bus}
		t.Repeat(map[string]func(*rapid.T){
			"send": m.send, "complete": m.complete, "complete nothing": m.nothing, "lose": m.lose, "release": m.release,
			"overtaken": m.overtaken, "": m.check,
		})
	})
}

type burstModel struct {
	s        *burstPool
	bus      int
	sent     []underWay
	released uint64
}

// underWay is a burst that was sent.
type underWay struct {
	burst  *burst
	cookie uint64
	lowest uint64
}

func (m *burstModel) send(t *rapid.T) {
	bu := rapid.IntRange(0, m.bus-1).Draw(t, "bu")
	under := 0
	for _, u := range m.sent {
		if u.burst.BU == bu {
			under++
		}
	}
	if m.s.canOpen(bu) != (under < burstsPerBU) {
		t.Fatalf("canOpen is %v with %d under way", m.s.canOpen(bu), under)
	}
	if under == burstsPerBU {
		t.Skip("all are under way")
	}
	b := m.s.open(bu)
	u := underWay{burst: b, lowest: 1 << 60}
	for range rapid.IntRange(1, 4).Draw(t, "tokens") {
		mep, part := m.released+rapid.Uint64Range(0, 9).Draw(t, "mep"), make([]byte, rapid.IntRange(1, 99).Draw(t, "part"))
		slot := rapid.Uint32Range(0, 1).Draw(t, "slot")
		token := core.Token{
			MEP:     mep,
			Slot:    slot,
			BU:      uint16(bu),
			Attempt: 3,
		}
		b.add(&Transfer{Token: token, window: window{Ref: preGrantedRef(bu, slot)}}, part)
		u.lowest = min(u.lowest, mep)
	}
	u.cookie = uint64(b.id)
	for _, p := range b.Pieces {
		if _, attempt, slot := placing.ParseImmediate(p.Imm); attempt != 3 || p.Ref != preGrantedRef(bu, slot) {
			t.Fatalf("%+v", p)
		}
	}
	m.sent = append(m.sent, u)
}

func (m *burstModel) complete(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing is under way")
	}
	i := rapid.IntRange(0, len(m.sent)-1).Draw(t, "which")
	u := &m.sent[i]
	b, err := m.s.complete(u.cookie)
	if err != nil || b != u.burst {
		t.Fatal(b, err)
	}
	m.sent = append(m.sent[:i], m.sent[i+1:]...)
}

func (m *burstModel) nothing(t *rapid.T) {
	cookie := rapid.Uint64Range(0, 40).Draw(t, "cookie")
	for _, u := range m.sent {
		if u.cookie == cookie {
			t.Skip("it is under way")
		}
	}
	if _, err := m.s.complete(cookie); err == nil {
		t.Fatal("a write ended that was not under way")
	}
}

func (m *burstModel) lose(t *rapid.T) {
	bu := rapid.IntRange(0, m.bus-1).Draw(t, "bu")
	m.s.abandon(bu)
	still := m.sent[:0]
	for _, u := range m.sent {
		if u.burst.BU != bu {
			still = append(still, u)
		}
	}
	m.sent = still
}

func (m *burstModel) release(t *rapid.T) {
	m.released += rapid.Uint64Range(0, 10).Draw(t, "more")
	m.s.release(m.released)
}

// overtaken moves some of those that need what is released.
func (m *burstModel) overtaken(t *rapid.T) {
	m.s.forEachOvertaken(func(b *burst) {
		for i := range m.sent {
			if u := &m.sent[i]; u.burst == b && u.lowest < m.released && rapid.Bool().Draw(t, "moved") {
				u.lowest = 1 << 60
				m.s.markMoved(u.cookie)
				return
			} else if u.burst == b && u.lowest >= m.released {
				t.Fatalf("a burst from MEP %d on is overtaken at %d", u.lowest, m.released)
			}
		}
	})
}

func (m *burstModel) check(t *rapid.T) {
	want := m.released
	for _, u := range m.sent {
		want = min(want, u.lowest)
	}
	if m.s.lowestNeeded() != want {
		t.Fatalf("needed from %d, not %d", m.s.lowestNeeded(), want)
	}
}
