package readoutunit

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/internal/standstill"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// coreModel plays the shell of a core, the scheduler and the builder units. One thing happens at a time.
type coreModel struct {
	t    *rapid.T
	c    *Core
	free [][]uint32 // by builder unit: slots

	cycle, mep uint64
	asked      []core.Token          // announced, and not granted
	writes     map[uint64]modelWrite // by cookie
	outcomes   map[uint64]bool       // by MEP: it has its outcome
	released   uint64                // MEPs below have theirs
	freed      uint64                // buffers below are given up
	excluded   []bool
	atBarrier  bool // the conductor is
	left       bool // the conductor has left
	drained    int  // times that it was said
	exclusions int
	lost       []bool // by builder unit
	returned   bool   // a lost builder unit has come back: what it was to be told before is forgotten
	confirmed  int    // exclusions
	windows    []bool // by builder unit: the pre-granted ones are asked for
	now        time.Duration
}

type modelWrite struct {
	bu   int
	meps []uint64
}

// TestCoreByStepsAlone has tokens, grants, outcomes, exclusions and losses come at random to a core that is told of
// them by Step alone, and does what that says: nothing is asked for or written that was withdrawn, no buffer is given
// up that a write needs, and in the end every token has come to one end and the core says once that it is done.
func TestCoreByStepsAlone(t *testing.T) {
	const bus, slots, meps = 3, 4, 256
	for _, tc := range []struct {
		name, discipline   string
		unheld, preGranted bool
		cycles             int
	}{
		{"shift", "shift", false, false, 1}, {"shift, pre-granted, wide", "shift", false, true, 3},
		{"shift, unheld", "shift", true, false, 2}, {"free", "free", true, false, 1},
		{"free, pre-granted", "free", true, true, 1}, {"pull", "pull", true, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				retention, err := NewRetention(make([]byte, meps*64), 64)
				if err != nil {
					t.Fatal(err)
				}
				_, _, sizes, ok := retention.reserve(meps)
				if !ok {
					t.Fatal("no buffers")
				}
				for i := range sizes {
					sizes[i] = placing.EntrySize + 4
				}
				retention.commit(meps)
				m := &coreModel{
					t: t,
					c: newCore(CoreConfig{RUs: 1, Streams: 1, Retention: retention, UnheldPhases: tc.unheld,
						Transfers: openKind(tc.discipline, DisciplineConfig{BUs: bus, SlotsPerBU: slots, RoundCycles: tc.cycles,
							Seats: SeatsInOrder(1, bus), PreGranted: tc.preGranted, FencePhases: true})}),
					writes:   map[uint64]modelWrite{},
					outcomes: map[uint64]bool{},
					excluded: make([]bool, bus),
					windows:  make([]bool, bus),
					lost:     make([]bool, bus),
				}
				for range bus {
					m.free = append(m.free, []uint32{0, 1, 2, 3})
				}
				for range rapid.IntRange(1, 120).Draw(t, "steps") {
					rapid.SampledFrom([]func(){m.tokens, m.grant, m.grant, m.conduct, m.conduct, m.complete, m.exclude,
						m.lose, m.comeBack, m.stall}).Draw(t, "step")()
				}
				m.end()
			})
		})
	}
}

// step tells the core something, and does what it says but for the actions of the conductor, which it returns.
func (m *coreModel) step(in Input) (conductor Action) {
	m.now += 2 * time.Millisecond
	in.Now = time.Unix(1, 0).Add(m.now)
	for _, a := range m.c.Step(&in, nil) {
		switch a.Kind {
		case FreeBuffers:
			m.freed = max(m.freed, a.Number)
			for _, w := range m.writes {
				if slices.Min(w.meps) < m.freed {
					m.t.Fatalf("buffers below %d are given up, of which %v are under way", m.freed, w.meps)
				}
			}
			if m.freed > m.released {
				m.t.Fatalf("buffers below %d are given up, and released are those below %d", m.freed, m.released)
			}
		case Announce:
			if m.excluded[a.BU] || int(a.Token.BU) != a.BU {
				m.t.Fatalf("announces %+v", a)
			}
			m.asked = append(m.asked, a.Token)
		case RequestWindows:
			m.windows[a.BU] = true
		case ConfirmExclusion:
			m.confirmed++
		case Drained:
			m.drained++
		case Refuse, Fail:
			m.t.Fatal(a.Err)
		case ReportTriggered:
			if a.Number != m.mep {
				m.t.Fatalf("MEPs below %d are triggered, not below %d", a.Number, m.mep)
			}
		default:
			conductor = a
		}
	}
	return conductor
}

// tokens gives a cycle, and tells which MEPs have their outcome.
func (m *coreModel) tokens() {
	c := slices.Repeat([]core.Token{none}, len(m.free))
	for bu := range c {
		if n := len(m.free[bu]); n > 0 && !m.excluded[bu] && m.mep < 250 && rapid.Bool().Draw(m.t, "token") {
			c[bu] = newToken(m.mep, m.free[bu][n-1])
			m.free[bu] = m.free[bu][:n-1]
			m.mep++
		}
	}
	for ; m.outcomes[m.released]; m.released++ {
	}
	m.step(Input{Kind: TokensCame, Tokens: &tagnet.Tokens{Batch: *batch(m.cycle, c), Released: m.released}})
	m.step(Input{Kind: Announced})
	m.cycle++
}

func (m *coreModel) grant() {
	for bu, asked := range m.windows {
		if asked {
			m.windows[bu] = false
			p := placing.PreGrants{}
			for slot := range uint32(4) {
				p.Refs = append(p.Refs, placing.Ref(preGrantedRef(bu+1, slot)))
			}
			m.step(Input{Kind: PreGrantsCame, BU: bu, PreGrants: &p})
			return
		}
	}
	if len(m.asked) > 0 {
		i := rapid.IntRange(0, len(m.asked)-1).Draw(m.t, "which")
		k := m.asked[i]
		m.asked = slices.Delete(m.asked, i, i+1)
		m.step(Input{Kind: GrantCame, BU: int(k.BU), Grant: placing.Grant{MEP: k.MEP, Slot: k.Slot, Attempt: 1, Window: 1,
			Gen: 1, Length: 4}})
	}
}

// conduct is what the conductor does next.
func (m *coreModel) conduct() {
	if m.left {
		return
	}
	if m.atBarrier {
		m.atBarrier = false
		m.step(Input{Kind: BarrierPassed, Held: barrier.Straggler{Rank: barrier.Nobody}})
		return
	}
	switch a := m.step(Input{Kind: ConductorFree}); a.Kind {
	case Write:
		if m.excluded[a.BU] || len(a.Pieces) == 0 {
			m.t.Fatalf("writes %d parts to builder unit %d, which is out: %v", len(a.Pieces), a.BU, m.excluded[a.BU])
		}
		w := modelWrite{bu: a.BU}
		for _, p := range a.Pieces {
			mep, _, _ := placing.ParseImmediate(p.Imm)
			w.meps = append(w.meps, uint64(mep))
		}
		m.writes[a.Number] = w
	case EnterBarrier:
		m.atBarrier = true
	case FinishBarrier:
		m.step(Input{Kind: BarrierFinished})
	case Leave:
		m.left = true
	}
}

// stall has the builder units do nothing for so long that they are passed over where phases wait for them.
func (m *coreModel) stall() {
	if rapid.IntRange(0, 4).Draw(m.t, "seldom") > 0 {
		return
	}
	for range 100 {
		m.now += standstill.Tick
		m.conduct()
	}
}

func (m *coreModel) complete() {
	var cookies []uint64
	for cookie := range m.writes {
		cookies = append(cookies, cookie)
	}
	if slices.Sort(cookies); len(cookies) == 0 {
		return
	}
	cookie := rapid.SampledFrom(cookies).Draw(m.t, "write")
	w := m.writes[cookie]
	delete(m.writes, cookie)
	in := Input{Kind: WriteCompleted, BU: w.bu, Cookie: cookie}
	if m.excluded[w.bu] && rapid.Bool().Draw(m.t, "fails") {
		in.Err = errors.New("refused")
	}
	for _, mep := range w.meps {
		m.outcomes[mep] = true
	}
	m.step(in)
}

// exclude takes a builder unit away for good. Its MEPs are other units' now.
func (m *coreModel) exclude() {
	bu := rapid.IntRange(0, len(m.free)-1).Draw(m.t, "bu")
	if m.excluded[bu] || rapid.IntRange(0, 9).Draw(m.t, "seldom") > 0 {
		return
	}
	m.excluded[bu] = true
	m.exclusions++
	m.step(Input{Kind: TokensCame, Tokens: &tagnet.Tokens{Released: m.released,
		Withdrawals: []core.Withdrawal{{BU: uint16(bu), BeforeCycle: m.cycle}}}})
}

func (m *coreModel) lose() {
	bu := rapid.IntRange(0, len(m.free)-1).Draw(m.t, "bu")
	if rapid.IntRange(0, 19).Draw(m.t, "seldom") > 0 {
		return
	}
	m.excluded[bu], m.lost[bu] = true, true
	for cookie, w := range m.writes {
		if w.bu == bu {
			delete(m.writes, cookie)
		}
	}
	m.step(Input{Kind: BULost, BU: bu})
}

// comeBack has another process of a lost builder unit take part: all its slots are free, and it knows nothing.
func (m *coreModel) comeBack() {
	bu := slices.Index(m.lost, true)
	if bu < 0 || rapid.Bool().Draw(m.t, "later") {
		return
	}
	m.excluded[bu], m.lost[bu], m.returned = false, false, true
	m.free[bu] = []uint32{0, 1, 2, 3}
	m.asked = slices.DeleteFunc(m.asked, func(k core.Token) bool { return int(k.BU) == bu })
	asked := slices.Contains(m.windows, true) || m.c.requested
	m.windows[bu] = false
	m.step(Input{Kind: TokensCame, Tokens: &tagnet.Tokens{Released: m.released,
		Withdrawals: []core.Withdrawal{{BU: uint16(bu), Lost: true, BeforeCycle: m.cycle},
			{BU: uint16(bu), Returned: true, BeforeCycle: m.cycle}}}})
	if m.windows[bu] != asked {
		m.t.Fatalf("windows of builder unit %d, which is back, are asked for: %v; of others: %v", bu, m.windows[bu], asked)
	}
}

// end lets everything come to its end.
func (m *coreModel) end() {
	m.step(Input{Kind: TokensOver})
	for range 4000 {
		m.grant()
		m.complete()
		m.conduct()
	}
	if m.c.transfers.grantsOnRequest { // what was not asked for is over when its MEP has an outcome
		m.released = m.mep
		m.step(Input{Kind: TokensCame, Tokens: &tagnet.Tokens{Released: m.released}})
	}
	s := m.c.Stats()
	if m.drained != 1 || !m.left || s.OpenTransfers+s.OrphanedWrites != 0 || len(m.writes) > 0 {
		m.t.Fatalf("at the end it said %d times that it is done: %+v", m.drained, s)
	}
	if m.confirmed > m.exclusions || m.confirmed < m.exclusions && !slices.Contains(m.lost, true) && !m.returned {
		m.t.Fatalf("%d of %d exclusions are confirmed", m.confirmed, m.exclusions)
	}
	if ends := s.PartsWritten + s.WithdrawnTokens + s.UnrequestedTokens; ends != m.mep || s.TokensReceived != m.mep {
		m.t.Fatalf("%d tokens came, and %d came to an end: %+v", m.mep, ends, s)
	}
}

// TestAnnouncedPartOutlivesItsBuffer holds that an announced part stays as it is when the step that announces it also
// frees its buffer: a builder unit that is lost now held up the MEP, which goes to another one.
func TestAnnouncedPartOutlivesItsBuffer(t *testing.T) {
	const meps = 4
	retention, err := NewRetention(make([]byte, meps*64), 64)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(with byte) {
		_, strip, sizes, ok := retention.reserve(1)
		if !ok {
			t.Fatal("no buffer is free")
		}
		for i := range sizes {
			copy(strip.Mem[i*64:], bytes.Repeat([]byte{with}, 64))
			sizes[i] = placing.EntrySize + uint32(with)
		}
		retention.commit(len(sizes))
	}
	fill(4)
	c := newCore(CoreConfig{RUs: 1, Streams: 1, Retention: retention, UnheldPhases: true,
		Transfers: openKind("free", DisciplineConfig{BUs: 2, SlotsPerBU: 1, RoundCycles: 1, Seats: SeatsInOrder(1, 2)})})
	var announced []Action
	step := func(tokens tagnet.Tokens) {
		for _, a := range c.Step(&Input{Kind: TokensCame, Tokens: &tokens}, nil) {
			switch a.Kind {
			case FreeBuffers:
				retention.freeBelow(a.Number)
			case Announce:
				announced = append(announced, a)
			case Refuse, Fail:
				t.Fatal(a.Err)
			}
		}
	}
	step(tagnet.Tokens{Batch: *batch(0, []core.Token{newToken(0, 0), none})})
	again := newToken(0, 0)
	again.Attempt = 2
	step(tagnet.Tokens{Withdrawals: []core.Withdrawal{{Lost: true, BeforeCycle: 1}}, Released: 3, HeldUp: []uint64{0},
		Batch: *batch(1, []core.Token{none, again})})
	fill(9) // others' parts are in the buffers now
	if want := bytes.Repeat([]byte{4}, placing.EntrySize+4); len(announced) != 2 ||
		!bytes.Equal(announced[1].Part, want) {
		t.Errorf("%d parts were announced, the last as %v; it is %v", len(announced), announced[len(announced)-1].Part, want)
	}
}
