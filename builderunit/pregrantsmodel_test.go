package builderunit

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/transport"
)

// preGrantedModel drives an Assembler of pre-granted windows at random beside a model of what each slot holds. Readout
// units send the parts of tokens in any order, some twice and some late; MEPs are given up and issued again, to
// whatever slot; and some parts are nonsense.
type preGrantedModel struct {
	a      *Assembler
	layout *placing.Layout
	slots  []preGrantedModelSlot
	next   uint64         // MEP
	again  []modelAttempt // given up: to be issued again
	parts  []sentPart     // of tokens issued, not sent yet
	sent   []sentPart     // those sent, some of the last
	want   Stats
}

// modelAttempt is a token.
type modelAttempt struct {
	mep     uint64
	attempt uint8
}

type preGrantedModelSlot struct {
	issued  bool // it has a token
	lengths []uint32
	holds   modelAttempt // if begun; else what it held last, if any
	begun   bool
	held    bool
}

// sentPart is what a readout unit tells with a part.
type sentPart struct {
	ru     int
	slot   uint32
	turn   modelAttempt
	length uint32
}

func newPreGrantedModel(t *rapid.T) *preGrantedModel {
	blocks := rapid.SliceOfN(rapid.IntRange(60, 300), 1, 4).Draw(t, "blocks")
	counts := rapid.SliceOfN(rapid.IntRange(1, 3), len(blocks), len(blocks)).Draw(t, "sources")
	l, err := placing.NewLayout(placing.NewDivision(counts...), blocks)
	if err != nil {
		t.Fatal(err)
	}
	m := &preGrantedModel{layout: l, slots: make([]preGrantedModelSlot, rapid.IntRange(1, 4).Draw(t, "slots"))}
	m.a = newPreGrantedAssembler(l, len(m.slots))
	for i := range m.slots {
		m.slots[i].lengths = make([]uint32, l.Units())
		for ru := range l.Units() {
			m.a.RecordGrant(i, ru, modelRef(ru, uint32(i)))
			m.want.WindowsGranted++
		}
	}
	// Where the low half of a MEP's number begins anew, too.
	m.next = rapid.SampledFrom([]uint64{0, 1<<31 - 2, 1<<32 - 3, 7<<32 - 5}).Draw(t, "first")
	m.a.newestComplete = m.next
	return m
}

func modelRef(ru int, slot uint32) shmem.Ref { return shmem.Ref{Window: uint32(ru), Gen: slot + 1} }

// issue makes a token for a free slot, and the parts of it.
func (m *preGrantedModel) issue(t *rapid.T) {
	i := rapid.IntRange(0, len(m.slots)-1).Draw(t, "slot")
	s := &m.slots[i]
	if s.issued {
		t.Skip("the slot has a token")
	}
	of := modelAttempt{m.next, 1}
	if n := len(m.again); n > 0 && rapid.Bool().Draw(t, "again") {
		of, m.again = m.again[0], m.again[1:]
	} else {
		m.next++
	}
	s.issued = true
	for ru := range m.layout.Units() {
		_, capacity := m.layout.PartRange(ru)
		least := m.layout.EntriesSize(ru) + m.layout.SourceCount(ru)*event.MFPFixedSize
		length := uint32(rapid.IntRange(least/4, capacity/4).Draw(t, "words") * 4)
		m.parts = append(m.parts, sentPart{ru, uint32(i), of, length})
	}
}

// expect is what the model has to say to a part that is well-formed; it takes it.
func (m *preGrantedModel) expect(p sentPart) (why rejectedPlacement, full bool) {
	s := &m.slots[p.slot]
	if !s.begun {
		if s.held && s.holds.mep == p.turn.mep && p.turn.attempt <= s.holds.attempt {
			return builtBefore, false
		}
		s.begun, s.held, s.holds = true, true, p.turn
		clear(s.lengths)
	}
	switch h := s.holds; {
	case h.mep != p.turn.mep:
		return otherMEP, false
	case h.attempt > p.turn.attempt:
		return oldAttempt, false
	case h.attempt < p.turn.attempt:
		return newAttempt, false
	case s.lengths[p.ru] != 0:
		return duplicatePart, false
	}
	s.lengths[p.ru] = p.length
	return placementAccepted, !slices.Contains(s.lengths, 0)
}

// place says parts of one readout unit at once, and holds that they do what they should.
func (m *preGrantedModel) place(t *rapid.T, ru int, parts []sentPart) {
	var ps []transport.Placement
	var completed []uint32
	for _, p := range parts {
		ps = append(ps, transport.Placement{
			Ref: modelRef(ru, p.slot), Length: p.length, Imm: placing.Immediate(p.turn.mep, p.turn.attempt, p.slot),
		})
		why, full := m.expect(p)
		m.count(why)
		if full {
			completed = append(completed, p.slot)
		}
	}
	if got := slotsOf(m.a.ApplyPlacements(ru, ps, nil)); !slices.Equal(got, completed) {
		t.Fatalf("slots %v became whole, not %v, by %+v", got, completed, parts)
	}
	for _, i := range completed {
		s := &m.slots[i]
		last := len(s.lengths) - 1
		off, _ := m.layout.PartRange(last)
		if got, want := m.a.SlotMEP(int(i)), (MEP{s.holds.mep, uint32(s.holds.attempt),
			off + int(s.lengths[last])}); got != want {
			t.Fatalf("slot %d holds %+v, not %+v", i, got, want)
		}
		for ru, n := range s.lengths {
			off, _ := m.layout.PartRange(ru)
			if at, length := m.a.placedRange(int(i), ru); at != off || length != int(n) {
				t.Fatalf("part %d of slot %d is %d bytes at %d, not %d at %d", ru, i, length, at, n, off)
			}
		}
	}
}

// slotsOf are the slots that became whole.
func slotsOf(landings []SlotProgress) (slots []uint32) {
	for _, l := range landings {
		if l.Progress == CompletedMEP {
			slots = append(slots, l.Slot)
		}
	}
	return slots
}

func (m *preGrantedModel) count(why rejectedPlacement) {
	if why == placementAccepted {
		m.want.PartsInPlace++
		return
	}
	m.want.RejectedPlacements++
	m.want.RejectedByReason[why]++
}

// send takes some of a readout unit's parts, in any order.
func (m *preGrantedModel) send(t *rapid.T) {
	ru := rapid.IntRange(0, m.layout.Units()-1).Draw(t, "ru")
	var mine, rest []sentPart
	for _, p := range m.parts {
		if p.ru == ru && (len(mine) == 0 || rapid.Bool().Draw(t, "this, too")) {
			mine = append(mine, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(mine) == 0 {
		t.Skip("nothing to send")
	}
	m.parts = rest
	if rapid.Bool().Draw(t, "turned round") {
		slices.Reverse(mine)
	}
	m.place(t, ru, mine)
	m.sent = append(m.sent, mine...)
	m.sent = m.sent[max(0, len(m.sent)-12):]
}

// repeat says again what was said: of a slot that is being filled, or whole, or free, or filled with something else by
// now.
func (m *preGrantedModel) repeat(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing was sent")
	}
	p := rapid.SampledFrom(m.sent).Draw(t, "part")
	s := &m.slots[p.slot]
	if !s.begun && !(s.held && s.holds.mep == p.turn.mep) {
		t.Skip("a free slot takes what it did not hold last")
	}
	m.place(t, p.ru, []sentPart{p})
}

// nonsense says what cannot be, and holds that it changes nothing.
func (m *preGrantedModel) nonsense(t *rapid.T) {
	ru := rapid.IntRange(0, m.layout.Units()-1).Draw(t, "ru")
	slot := uint32(rapid.IntRange(0, len(m.slots)-1).Draw(t, "slot"))
	_, capacity := m.layout.PartRange(ru)
	p := transport.Placement{Ref: modelRef(ru, slot), Length: uint32(capacity) &^ 3,
		Imm: placing.Immediate(m.next, 1, slot)}
	why := badPart
	switch rapid.IntRange(0, 7).Draw(t, "fault") {
	case 0:
		p.Imm, why = placing.Immediate(m.next, 1, uint32(len(m.slots))), noSlot
	case 1:
		p.Ref.Gen, why = p.Ref.Gen+1, otherWindow
	case 2:
		p.Ref, why = shmem.Ref{}, otherWindow
	case 3:
		p.Offset = 4
	case 4:
		p.Length = uint32(m.layout.EntriesSize(ru) + m.layout.SourceCount(ru)*event.MFPFixedSize - 4)
	case 5:
		p.Length = uint32(capacity) + 4
	case 6:
		p.Length -= 2
	default:
		p.Imm, why = placing.Immediate(m.next, 0, slot), noMEP
	}
	slots, lengths, newest := slices.Clone(m.a.slots), slices.Clone(m.a.placedBytes), m.a.newestComplete
	if full := m.a.ApplyPlacements(ru, []transport.Placement{p}, nil); len(full) > 0 {
		t.Fatalf("%+v made %v whole", p, full)
	}
	if !reflect.DeepEqual(slots, m.a.slots) || !slices.Equal(lengths, m.a.placedBytes) || newest != m.a.newestComplete {
		t.Fatalf("%+v changed something", p)
	}
	m.count(why)
}

func (m *preGrantedModel) finish(t *rapid.T) {
	var slots []uint32
	for i := range m.slots {
		s := &m.slots[i]
		if s.begun && !slices.Contains(s.lengths, 0) && rapid.Bool().Draw(t, "finished") {
			slots = append(slots, uint32(i))
			s.begun, s.issued = false, false
		}
	}
	m.a.Finish(slots, 3, 70)
	m.want.BuiltMEPs += uint64(len(slots))
	m.want.PlacedMFPs += 3
	m.want.BuiltBytes += 70
}

// abandon gives a MEP up, to be issued again. What was not sent of it is not; or it is, and late.
func (m *preGrantedModel) abandon(t *rapid.T) {
	i := rapid.IntRange(0, len(m.slots)-1).Draw(t, "slot")
	s := &m.slots[i]
	if s.begun {
		m.want.IncompleteMEPs++
		m.again = append(m.again, modelAttempt{s.holds.mep, s.holds.attempt + 1})
		s.begun, s.issued = false, false
		m.parts = slices.DeleteFunc(m.parts, func(p sentPart) bool { return p.slot == uint32(i) })
	}
	m.a.abandonSlot(i)
}

func (m *preGrantedModel) check(t *rapid.T) {
	checkAssembler(t, m.a, m.want, len(m.slots), func(i int) bool { return m.slots[i].begun })
}

func TestPreGrantedModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newPreGrantedModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "issue": m.issue, "issue more": m.issue, "send": m.send, "send more": m.send, "send on": m.send,
			"repeat": m.repeat, "nonsense": m.nonsense, "finish": m.finish, "abandon": m.abandon,
		})
	})
}

// TestNewestIsAgreedOn holds that one readout unit alone cannot lead the others astray, and that no MEP is before the
// first.
func TestNewestIsAgreedOn(t *testing.T) {
	l, err := placing.NewLayout(placing.EvenDivision(2, 1), []int{40, 40})
	if err != nil {
		t.Fatal(err)
	}
	a := newPreGrantedAssembler(l, 2)
	_, lengthRange := l.PartRange(0)
	ref := shmem.Ref{Window: 1, Gen: 1}
	for i := range 4 {
		a.RecordGrant(i/2, i%2, ref)
	}
	place := func(ru int, slot uint32, mep uint64) []uint32 {
		return slotsOf(a.ApplyPlacements(ru, []transport.Placement{{Ref: ref, Length: uint32(lengthRange),
			Imm: placing.Immediate(mep, 1, slot)}}, nil))
	}
	place(0, 0, 1<<32-1)
	if s := a.Stats(); s.RejectedByReason[noMEP] != 1 {
		t.Errorf("MEP -1: %+v", s)
	}
	place(0, 0, 1<<31-1) // an invention
	place(0, 1, 3)
	if full := place(1, 1, 3); len(full) != 1 || a.SlotMEP(1).MEP != 3 || a.newestComplete != 3 {
		t.Errorf("%v holds %+v, the newest is %d", full, a.SlotMEP(1), a.newestComplete)
	}
}

func TestRejectedPlacementsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for s := placementAccepted; s <= rejectedPlacementKinds; s++ {
		if name := s.String(); name == "" || seen[name] {
			t.Errorf("rejected placement %d is called %q", s, name)
		} else {
			seen[name] = true
		}
	}
}
