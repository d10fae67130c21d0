package core

import (
	"testing"

	"pgregory.net/rapid"
)

// pushModel plays the units of a run in which readout units assign MEPs, with one stream of notices to each unit.
type pushModel struct {
	core  *Core
	now   int64
	log   []Notice
	units []pushUnit
	bus   []struct{ out bool }
	built map[uint64]int
	total uint64 // MEPs of the input
	short uint32 // events that the last MEP lacks
}

// pushUnit is a readout unit.
type pushUnit struct {
	read   uint64
	at     int // notices that it has
	tokens map[uint64]Token
	below  uint64
	limit  uint64
	stop   *uint64
	ended  bool
}

// assigned tells that the unit has assigned a MEP by a token, and sent its part.
func (u *pushUnit) assigned(t Token) bool {
	return u.tokens[t.MEP] == t && t.MEP < min(u.read, u.limit)
}

// TestPush holds, for every order of events: credits go ahead of what is read, the run ends where its input ends, or
// where the readout units have stopped, and each MEP below is built once; no MEP is built of which a unit has no part.
func TestPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newPushModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"read": m.readSome, "receive": m.receive, "receive2": m.receive, "build": m.build, "build2": m.build,
			"lose": m.lose, "drain": func(*rapid.T) { m.drain() }, "": func(*rapid.T) { m.look() },
		})
		m.finish(t)
	})
}

func newPushModel(t *rapid.T) *pushModel {
	view := Config{
		RUs:         names("ru", rapid.IntRange(1, 3).Draw(t, "rus")),
		BUs:         names("bu", rapid.IntRange(1, 3).Draw(t, "bus")),
		Slots:       rapid.IntRange(1, 3).Draw(t, "slots"),
		Packing:     4,
		Push:        true,
		MaxAttempts: MaxAttempt,
	}
	c, err := New(Settings{View: view, Term: 1, Began: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := &pushModel{core: c, built: map[uint64]int{}, bus: make([]struct{ out bool }, len(view.BUs))}
	m.total, m.short = rapid.Uint64Range(0, 30).Draw(t, "total"), rapid.Uint32Range(0, 3).Draw(t, "short")
	for i := range view.RUs {
		m.units = append(m.units, pushUnit{tokens: map[uint64]Token{}, limit: NoMEP})
		c.alloc.rus[i].ReadBelow = 0
	}
	c.alloc.Start()
	return m
}

func (m *pushModel) look() {
	m.now++
	m.log = append(m.log, m.core.Ready(m.now).Notices...)
}

// report is a unit's report, which its session would carry.
func (m *pushModel) report(t *rapid.T, i int) {
	u := &m.units[i]
	ended, events := u.read == m.total, u.read*4
	if ended && m.total > 0 {
		events -= uint64(m.short)
	}
	if err := m.core.alloc.ApplyUpdate(i, Update{ReadBelow: u.read, Events: events, InputEnded: ended}); err != nil {
		t.Fatal(err)
	}
	if u.stop != nil {
		if err := m.core.alloc.applyStop(i, *u.stop); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *pushModel) readSome(t *rapid.T) {
	i := rapid.IntRange(0, len(m.units)-1).Draw(t, "ru")
	u := &m.units[i]
	u.read = min(m.total, u.read+rapid.Uint64Range(1, 5).Draw(t, "more"))
	if rapid.Bool().Draw(t, "reports now") {
		m.report(t, i)
	}
}

func (m *pushModel) receive(t *rapid.T) {
	i := rapid.IntRange(0, len(m.units)-1).Draw(t, "ru")
	u := &m.units[i]
	if u.at == len(m.log) {
		return
	}
	n := m.log[u.at]
	u.at++
	for k := range n.Len() {
		for place := range n.PlacesPerCycle {
			if tok, ok := n.Token(k, place); ok {
				u.tokens[tok.MEP], u.below = tok, max(u.below, tok.MEP+1)
			}
		}
	}
	switch {
	case n.EndKnown:
		u.ended, u.limit = true, n.EndMEP
	case n.State == Draining && u.stop == nil:
		u.limit = min(u.read, u.below)
		u.stop = &u.limit
		stop := u.limit
		u.stop = &stop
		m.report(t, i)
	}
}

// build reports a MEP of which all parts are there.
func (m *pushModel) build(t *rapid.T) {
	var whole []Token
	m.core.alloc.forEachUnfinished(func(k uint64, r *mepRecord) {
		tok := Token{MEP: k, Slot: r.slot, BU: r.bu, Attempt: r.attempt}
		if r.state != recordInFlight {
			return
		}
		for i := range m.units {
			if !m.units[i].assigned(tok) {
				return
			}
		}
		whole = append(whole, tok)
	})
	if len(whole) == 0 {
		return
	}
	tok := rapid.SampledFrom(whole).Draw(t, "mep")
	f := Feedback{MEP: tok.MEP, Slot: tok.Slot, Attempt: tok.Attempt, Events: 4, Outcome: Built}
	if tok.MEP == m.total-1 {
		f.Events -= m.short
	}
	m.core.alloc.learnShortMEP(&f)
	if err := m.core.alloc.ApplyFeedback(int(tok.BU), f); err != nil {
		t.Fatal(err)
	}
	m.built[tok.MEP]++
}

func (m *pushModel) lose(t *rapid.T) {
	i := rapid.IntRange(0, len(m.bus)-1).Draw(t, "bu")
	if m.bus[i].out || m.core.alloc.activeBUs == 1 {
		return
	}
	m.bus[i].out = true
	if _, err := m.core.alloc.ExcludeBU(i, true); err != nil {
		t.Fatal(err)
	}
}

func (m *pushModel) drain() { m.core.alloc.Drain(0) }

// finish lets everything happen that still can, and checks the end.
func (m *pushModel) finish(t *rapid.T) {
	if m.total%2 == 0 {
		m.drain()
	}
	for range 1000 {
		m.look()
		if m.core.alloc.State() == Drained {
			break
		}
		for i := range m.units {
			u := &m.units[i]
			u.read = min(m.total, u.read+1)
			m.report(t, i)
			m.receive(t)
		}
		m.build(t)
	}
	a := m.core.alloc
	c := a.counters
	if a.State() != Drained || c.Built != a.nextMEP || c.Issued != c.Built || c.EventsIssued != c.EventsBuilt {
		t.Fatalf("the run does not end: %v, end %d, %+v", a.State(), a.endMEP, c)
	}
	for k := range a.nextMEP {
		if m.built[k] != 1 {
			t.Fatalf("MEP %d was built %d times", k, m.built[k])
		}
	}
	for i := range m.units {
		if m.units[i].stop != nil && *m.units[i].stop > a.endMEP {
			t.Fatalf("unit %d had assigned MEPs up to %d, and the run ends at %d", i, *m.units[i].stop, a.endMEP)
		}
	}
	if !a.draining && a.nextMEP != m.total {
		t.Fatalf("%d MEPs of %d were built", a.nextMEP, m.total)
	}
}

// TestCreditsComeBeforeTheirMEPs: all slots are announced before anything is read, MEP after MEP, round robin.
func TestCreditsComeBeforeTheirMEPs(t *testing.T) {
	a := newAllocator(t, Config{RUs: names("ru", 2), BUs: names("bu", 3), Slots: 2, Packing: 1, Push: true})
	a.Start()
	var b Batch
	b.Reset(0, 3)
	if n := a.Issue(&b); n != 6 {
		t.Fatalf("%d credits for 6 slots", n)
	}
	for i, mep := range b.MEPs {
		if mep != uint64(i) {
			t.Fatalf("place %d has MEP %d", i, mep)
		}
	}
	if a.waitReason != WaitForInput {
		t.Errorf("waits for %v where all slots are announced and nothing is read", a.waitReason)
	}
	must(t, a.ApplyUpdate(0, Update{ReadBelow: 4, Events: 4, InputEnded: true}))
	must(t, a.ApplyUpdate(1, Update{ReadBelow: 4, Events: 4, InputEnded: true}))
	a.Issue(&b)
	if c := a.counters; c.Issued != 4 || a.nextMEP != 4 || c.EventsIssued != 4 {
		t.Fatalf("the input ends at MEP 4, and the credits beyond it stay: %+v", c)
	}
}

// TestPushRefuses refuses configurations in which readout units cannot assign MEPs.
func TestPushRefuses(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"live": func(c *Config) { c.Live = true },
		"ring": func(c *Config) { c.TagRing = true },
		"skip": func(c *Config) { c.NoSlotPolicy = Skip },
		"rule": func(c *Config) { c.Rules.TurnOrder = ByDemand },
	} {
		c := Config{RUs: names("ru", 2), BUs: names("bu", 3), Slots: 2, Packing: 1, Push: true}
		if set(&c); c.check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
