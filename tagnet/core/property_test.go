package core

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestScheduling drives the core with any order of inputs and holds it to the rules of the architecture: no slot is
// used twice, each active builder unit stands at most once in a cycle, the released watermark is right and never goes
// back, every MEP gets one outcome, wrong feedback changes nothing, and with feedback given the core drains.
func TestScheduling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"":           m.check,
			"read":       m.readSome,
			"issue":      m.issue,
			"issue2":     m.issue, // more often
			"feedback":   m.feedback,
			"feedback2":  m.feedback,
			"wrong":      m.wrongFeedback,
			"exclude bu": m.excludeBU,
			"include bu": m.includeBU,
			"exclude ru": m.excludeRU,
			"include ru": m.includeRU,
			"know":       m.ackAbsences,
			"pass over":  func(*rapid.T) { m.core.passOver() },
			"pause":      func(*rapid.T) { _ = m.core.Pause() },
			"resume":     func(*rapid.T) { _ = m.core.Resume() },
			"drain":      m.drain,
		})
		m.finish(t)
	})
}

type model struct {
	core          *Allocator
	batch         Batch
	total         uint64 // MEPs of the input
	events        uint64
	read          []uint64
	gone          []bool // RUs
	out           []bool // BUs
	ackedAbsences []int  // by BU: absences that it goes by
	tokens        map[uint64]Token
	owner         map[[2]uint32]uint64 // MEP in a slot
	done          map[uint64]Outcome
	low           uint64 // released last time
	limit         uint64
}

func newModel(t *rapid.T) *model {
	rus, bus := rapid.IntRange(1, 5).Draw(t, "rus"), rapid.IntRange(1, 7).Draw(t, "bus")
	cfg := Config{
		RUs:          names("ru", rus),
		BUs:          names("bu", bus),
		Slots:        rapid.IntRange(1, 4).Draw(t, "slots"),
		Packing:      rapid.IntRange(1, 9).Draw(t, "packing"),
		LookAhead:    rapid.IntRange(0, 5).Draw(t, "look-ahead"),
		Window:       rapid.SampledFrom([]int{0, 1, 2, 16}).Draw(t, "window"),
		MaxAttempts:  MaxAttempt,
		NoSlotPolicy: rapid.SampledFrom([]Policy{Wait, Skip}).Draw(t, "policy"),
		Rules:        drawRules(t, bus),
		Loose:        rapid.Bool().Draw(t, "loose"),
		FirstMEP:     rapid.Uint64Range(0, 3).Draw(t, "first"),
	}
	core := newAllocator(t, cfg)
	core.Start()
	m := &model{
		core:          core,
		total:         rapid.Uint64Range(0, 60).Draw(t, "total"),
		read:          make([]uint64, rus),
		gone:          make([]bool, rus),
		out:           make([]bool, bus),
		ackedAbsences: make([]int, bus),
		tokens:        map[uint64]Token{},
		owner:         map[[2]uint32]uint64{},
		done:          map[uint64]Outcome{},
		limit:         NoMEP,
		low:           cfg.FirstMEP,
	}
	if m.total > 0 {
		m.events = m.total*uint64(cfg.Packing) - rapid.Uint64Range(0, uint64(cfg.Packing)-1).Draw(t, "lacking")
	}
	return m
}

func (m *model) sendUpdate(t *rapid.T, ru int, upTo uint64) {
	m.read[ru] = upTo
	u := Update{ReadBelow: m.core.cfg.FirstMEP + upTo, Events: min(m.events, upTo*uint64(m.core.cfg.Packing)),
		InputEnded: upTo == m.total}
	if err := m.core.ApplyUpdate(ru, u); err != nil && !m.gone[ru] {
		t.Fatalf("update %+v refused: %v", u, err)
	}
}

func (m *model) readSome(t *rapid.T) {
	ru := rapid.IntRange(0, len(m.read)-1).Draw(t, "ru")
	m.sendUpdate(t, ru, min(m.total, m.read[ru]+rapid.Uint64Range(0, 20).Draw(t, "more")))
}

func (m *model) issue(t *rapid.T) {
	m.batch.Reset(m.core.NextCycle(), m.core.PlacesPerCycle())
	n := m.core.Issue(&m.batch)
	for i := range m.batch.Len() {
		any := false
		for place := range m.batch.PlacesPerCycle {
			tok, ok := m.batch.Token(i, place)
			if !ok {
				continue
			}
			any = true
			n--
			m.checkToken(t, tok, place)
		}
		if !any {
			t.Fatal("a cycle without a token")
		}
	}
	if n != 0 {
		t.Fatalf("Issue told %d tokens more than there are", n)
	}
}

func (m *model) checkToken(t *rapid.T, tok Token, place int) {
	if int(tok.BU) != place || m.out[tok.BU] {
		t.Fatalf("token %+v in place %d goes to the wrong or an excluded unit", tok, place)
	}
	if was, used := m.owner[[2]uint32{uint32(tok.BU), tok.Slot}]; used {
		t.Fatalf("token %+v uses the slot of MEP %d", tok, was)
	}
	if _, is := m.done[tok.MEP]; is {
		t.Fatalf("token %+v for a MEP with an outcome", tok)
	}
	if tok.Attempt != m.tokens[tok.MEP].Attempt+1 {
		t.Fatalf("token %+v after %+v", tok, m.tokens[tok.MEP])
	}
	for ru, r := range m.read {
		if !m.gone[ru] && tok.Attempt == 1 && tok.MEP >= m.core.cfg.FirstMEP+r {
			t.Fatalf("token %+v, but ru%d has read only to %d", tok, ru, r)
		}
	}
	if tok.MEP >= m.limit {
		t.Fatalf("token %+v beyond the limit %d", tok, m.limit)
	}
	m.checkAbsencesAcked(t, tok)
	m.tokens[tok.MEP] = tok
	m.owner[[2]uint32{uint32(tok.BU), tok.Slot}] = tok.MEP
}

// pick draws a token in flight.
func (m *model) pick(t *rapid.T) (Token, bool) {
	for k := m.core.cfg.FirstMEP; k < m.core.nextMEP; k++ {
		tok := m.tokens[k]
		if mep, ok := m.owner[[2]uint32{uint32(tok.BU), tok.Slot}]; ok && mep == k && rapid.Bool().Draw(t, "this one") {
			return tok, true
		}
	}
	return Token{}, false
}

func (m *model) feedback(t *rapid.T) {
	tok, ok := m.pick(t)
	if !ok {
		return
	}
	m.answer(t, tok, rapid.SampledFrom([]Outcome{Built, Discarded, Rejected}).Draw(t, "outcome"))
}

func (m *model) answer(t *rapid.T, tok Token, o Outcome) {
	f := Feedback{
		MEP:     tok.MEP,
		Slot:    tok.Slot,
		Attempt: tok.Attempt,
		Outcome: o,
	}
	k := tok.MEP - m.core.cfg.FirstMEP
	f.Events = uint32(min(m.events, (k+1)*uint64(m.core.cfg.Packing)) - k*uint64(m.core.cfg.Packing))
	if err := m.core.ApplyFeedback(int(tok.BU), f); err != nil {
		t.Fatalf("feedback %+v for %+v refused: %v", f, tok, err)
	}
	delete(m.owner, [2]uint32{uint32(tok.BU), tok.Slot})
	m.done[tok.MEP] = o
}

// wrongFeedback changes something in an entry and expects it to be refused without effect.
func (m *model) wrongFeedback(t *rapid.T) {
	tok, _ := m.pick(t)
	f := Feedback{
		MEP:     tok.MEP,
		Slot:    tok.Slot,
		Attempt: tok.Attempt,
		Outcome: Built,
	}
	bu := int(tok.BU)
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0:
		f.MEP += rapid.Uint64Min(1).Draw(t, "mep")
	case 1:
		f.Slot += rapid.Uint32Min(1).Draw(t, "slot")
	case 2:
		f.Attempt += rapid.Uint8Min(1).Draw(t, "attempt")
	case 3:
		f.Outcome = rapid.SampledFrom([]Outcome{0, 2, Abandoned, 77}).Draw(t, "outcome")
	case 4:
		bu = rapid.IntRange(-1, len(m.out)).Draw(t, "bu")
	}
	right := m.tokens[f.MEP]
	if mep, ok := m.owner[[2]uint32{uint32(bu), f.Slot}]; ok && mep == f.MEP && right.Attempt == f.Attempt &&
		f.Outcome == Built {
		return // by chance it is right
	}
	before := m.core.Registers()
	err := m.core.ApplyFeedback(bu, f)
	var in *inputError
	if !errors.As(err, &in) {
		t.Fatalf("feedback %+v of bu%d: got %v, want a refusal", f, bu, err)
	}
	after := m.core.Registers()
	if before.Released != after.Released || before.InFlight != after.InFlight ||
		before.Counters.Built != after.Counters.Built ||
		after.Counters.Refused[in.Reason] != before.Counters.Refused[in.Reason]+1 {
		t.Fatalf("refused feedback %+v (%v) changed %+v to %+v", f, err, before, after)
	}
}

func (m *model) excludeBU(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.out)-1).Draw(t, "bu")
	n, err := m.core.ExcludeBU(bu, false)
	must(t, err)
	for key := range m.owner {
		if key[0] == uint32(bu) {
			delete(m.owner, key)
			n--
		}
	}
	if n != 0 {
		t.Fatalf("exclusion of bu%d takes back %d too many", bu, n)
	}
	m.out[bu] = true
}

func (m *model) includeBU(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.out)-1).Draw(t, "bu")
	if m.core.IncludeBU(bu) == nil {
		m.out[bu] = false
	}
}

func (m *model) excludeRU(t *rapid.T) {
	ru := rapid.IntRange(0, 3*len(m.read)).Draw(t, "ru") // seldom
	if ru < len(m.read) {
		must(t, m.core.ExcludeRU(ru))
		m.gone[ru] = true
	}
}

// includeRU takes a readout unit in again, which has read nothing yet of what is to be issued.
func (m *model) includeRU(t *rapid.T) {
	ru := rapid.IntRange(0, len(m.read)-1).Draw(t, "ru")
	if m.gone[ru] && m.core.includeRU(ru) == nil {
		m.gone[ru], m.read[ru] = false, m.core.nextMEP-m.core.cfg.FirstMEP
	}
}

// ackAbsences lets a builder unit know of all absences.
func (m *model) ackAbsences(t *rapid.T) {
	bu := rapid.IntRange(0, len(m.out)-1).Draw(t, "bu")
	must(t, m.core.ackAbsences(bu, uint64(len(m.core.absences)), len(m.core.absences)))
	m.ackedAbsences[bu] = len(m.core.absences)
}

// checkAbsencesAcked holds that every builder unit goes by the rejoins of readout units before a new MEP is issued,
// which has their parts.
func (m *model) checkAbsencesAcked(t *rapid.T, tok Token) {
	for i, a := range m.core.absences {
		for bu, acked := range m.ackedAbsences {
			if a.Rejoined && tok.Attempt == 1 && !m.out[bu] && acked <= i {
				t.Fatalf("token %+v, and bu%d does not know that ru%d is back", tok, bu, a.RU)
			}
		}
		if a.FirstMEP <= tok.MEP && tok.Attempt == 1 && m.batch.FirstCycle < a.FirstCycle {
			t.Fatalf("token %+v in cycle %d or later: %+v is wrong", tok, m.batch.FirstCycle, a)
		}
	}
}

func (m *model) drain(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
		end := m.core.nextMEP + rapid.Uint64Range(0, 20).Draw(t, "end")
		m.core.Drain(end)
		m.limit = min(m.limit, end)
	}
}
