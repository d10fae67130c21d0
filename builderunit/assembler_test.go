package builderunit

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/transport"
)

// assemblerModel drives an Assembler at random beside a model that knows what each slot is to hold.
type assemblerModel struct {
	a     *Assembler
	rus   int
	slots []modelSlot
	mep   uint64
	gen   uint32
	want  Stats
}

type modelSlot struct {
	busy      bool // begun: at least one announcement was taken
	ready     bool // grants are out
	complete  bool
	mep       uint64
	attempt   uint32
	sizes     [][]uint32            // by readout unit, by stream
	messages  [][]*placing.Announce // not sent yet, by readout unit
	remaining []int                 // bytes not placed, by readout unit
	refs      []shmem.Ref
}

const modelSlotSize = 1 << 16

func newAssemblerModel(t *rapid.T) *assemblerModel {
	m := &assemblerModel{rus: rapid.IntRange(1, 5).Draw(t, "rus")}
	m.slots = make([]modelSlot, rapid.IntRange(1, 3).Draw(t, "slots"))
	m.a = NewAssembler(m.rus, len(m.slots), modelSlotSize, Pull{})
	for i := range m.slots {
		m.plan(t, i)
	}
	return m
}

// plan draws what a free slot is to hold next, and cuts the announcements of it at random.
func (m *assemblerModel) plan(t *rapid.T, i int) {
	s := modelSlot{mep: m.mep, attempt: rapid.Uint32Range(1, 3).Draw(t, "attempt")}
	m.mep++
	for ru := range m.rus {
		n := rapid.IntRange(1, 4).Draw(t, "streams")
		if rapid.IntRange(0, 9).Draw(t, "many") == 0 {
			n = rapid.IntRange(100, 300).Draw(t, "many streams")
		}
		s.sizes = append(s.sizes, rapid.SliceOfN(rapid.Uint32Range(event.MFPFixedSize, 60), n, n).Draw(t, "sizes"))
		s.messages = append(s.messages, cut(t, ru, i, &s))
		remaining := 0
		for _, size := range s.sizes[ru] {
			remaining += paddedBytes(size)
		}
		s.remaining = append(s.remaining, remaining)
	}
	m.slots[i] = s
}

// cut makes the announcements of one readout unit, of random lengths, none longer than a message holds.
func cut(t *rapid.T, ru, slot int, s *modelSlot) []*placing.Announce {
	var out []*placing.Announce
	sizes := s.sizes[ru]
	for first := 0; first < len(sizes); {
		n := min(len(sizes)-first, rapid.SampledFrom([]int{1, 2, placing.MaxEntries, placing.MaxEntries}).Draw(t, "entries"))
		a := &placing.Announce{
			RU:          uint16(ru),
			Slot:        uint32(slot),
			MEP:         s.mep,
			Attempt:     s.attempt,
			FirstStream: uint16(first),
			StreamCount: uint16(len(sizes)),
		}
		for i, size := range sizes[first : first+n] {
			a.Entries = append(a.Entries, placing.Entry{Size: size, CRC: uint32(ru)<<16 + uint32(first+i)})
		}
		out = append(out, a)
		first += n
	}
	return out
}

func (m *assemblerModel) announce(t *rapid.T) {
	i := rapid.IntRange(0, len(m.slots)-1).Draw(t, "slot")
	ru := rapid.IntRange(0, m.rus-1).Draw(t, "ru")
	s := &m.slots[i]
	if len(s.messages[ru]) == 0 {
		t.Skip("all is said")
	}
	msg := s.messages[ru][0]
	s.messages[ru] = s.messages[ru][1:]
	ready, err := m.a.Announce(msg)
	if err != nil {
		t.Fatal(err)
	}
	m.want.Announcements++
	s.busy = true
	for ru := range m.rus {
		if len(s.messages[ru]) > 0 {
			if ready {
				t.Fatalf("ready without the sizes of readout unit %d", ru)
			}
			return
		}
	}
	if !ready {
		t.Fatal("all is said, and it is not ready")
	}
	m.grant(t, i)
}

// grant checks the lay-out of a slot: parts disjoint, one behind the other in source order, from the header to the end.
func (m *assemblerModel) grant(t *rapid.T, i int) {
	s := &m.slots[i]
	s.ready = true
	sources := 0
	for ru := range m.rus {
		sources += len(s.sizes[ru])
	}
	end := event.MEPHeaderSize(sources)
	places := m.a.appendMFPPlaces(i, nil, true)
	if len(places) != sources {
		t.Fatalf("%d places for %d sources", len(places), sources)
	}
	for ru := range m.rus {
		off, size := m.a.PartRange(i, ru)
		if off != end || size != s.remaining[ru] {
			t.Fatalf("readout unit %d may write %d bytes at %d, not %d at %d", ru, size, off, s.remaining[ru], end)
		}
		for stream, size := range s.sizes[ru] {
			p := places[0]
			places = places[1:]
			want := mfpPlace{Source: uint16(sources - len(places) - 1), RU: uint16(ru), Offset: off, Size: int(size),
				CRC: uint32(ru)<<16 + uint32(stream)}
			if p != want {
				t.Fatalf("place %+v, not %+v", p, want)
			}
			off += paddedBytes(size)
		}
		end = off
		m.gen++
		ref := shmem.Ref{Window: uint32(ru), Gen: m.gen}
		s.refs = append(s.refs, ref)
		if slot, requested, ok := m.a.NextRequest(); !ok || slot != i || requested != ru {
			t.Fatalf("readout unit %d is asked for slot %d (%v), not %d for %d", requested, slot, ok, ru, i)
		}
		m.a.RecordGrant(i, ru, ref)
	}
	if slot, ru, ok := m.a.NextRequest(); ok {
		t.Fatalf("readout unit %d is asked once more, for slot %d", ru, slot)
	}
	if got := m.a.SlotMEP(i); got != (MEP{MEP: s.mep, Attempt: s.attempt, Size: end}) {
		t.Fatalf("%+v, with %d bytes", got, end)
	}
	if !slices.Equal(m.a.appendMEPRefs(i, nil), s.refs) {
		t.Fatalf("windows %v, not %v", m.a.appendMEPRefs(i, nil), s.refs)
	}
	m.want.WindowsGranted += uint64(m.rus)
	var open uint64
	for i := range m.slots {
		for _, remaining := range m.slots[i].remaining {
			if m.slots[i].ready && remaining > 0 {
				open++
			}
		}
	}
	m.want.OutstandingRequestsHigh = max(m.want.OutstandingRequestsHigh, open)
}

func (m *assemblerModel) place(t *rapid.T) {
	i := rapid.IntRange(0, len(m.slots)-1).Draw(t, "slot")
	ru := rapid.IntRange(0, m.rus-1).Draw(t, "ru")
	s := &m.slots[i]
	if !s.ready || s.remaining[ru] == 0 {
		t.Skip("nothing to place")
	}
	n := rapid.IntRange(1, s.remaining[ru]).Draw(t, "bytes")
	if rapid.Bool().Draw(t, "all") {
		n = s.remaining[ru]
	}
	if s.remaining[ru] -= n; s.remaining[ru] == 0 {
		m.want.PartsInPlace++
	}
	s.complete = !slices.ContainsFunc(s.remaining, func(remaining int) bool { return remaining > 0 })
	if got := placed(m.a, i, ru, s.refs[ru], uint32(n)); (got == CompletedMEP) != s.complete ||
		(got == CompletedNothing) != (s.remaining[ru] > 0) {
		t.Fatalf("%v is in place, with %v bytes missing", got, s.remaining)
	}
}

// refused holds that f changes no slot.
func (m *assemblerModel) refused(t *rapid.T, f func()) {
	slots, refs, placed, parts := slices.Clone(m.a.slots), slices.Clone(m.a.windowRefs), slices.Clone(m.a.placedBytes),
		slices.Clone(m.a.parts)
	for i := range parts {
		parts[i].entries = slices.Clone(parts[i].entries)
	}
	f()
	if !reflect.DeepEqual(slots, m.a.slots) || !reflect.DeepEqual(parts, m.a.parts) ||
		!slices.Equal(refs, m.a.windowRefs) || !slices.Equal(placed, m.a.placedBytes) {
		t.Fatalf("changed\n%+v to\n%+v", slots, m.a.slots)
	}
}

// placed says, as a link does, that so many bytes of what a slot is to hold are in place.
func placed(a *Assembler, i, ru int, ref shmem.Ref, n uint32) Progress {
	var s slot
	if i >= 0 && i < len(a.slots) {
		s = a.slots[i]
	}
	progress, why := a.applyPlacement(ru, &transport.Placement{Ref: ref, Length: n}, uint32(s.mep), uint8(s.attempt),
		uint32(i))
	if why != placementAccepted {
		a.stats.RejectedPlacements++
	}
	return progress
}

// finish finishes one slot, with what lies there.
func finish(a *Assembler, slot int) {
	mfps, bytes := uint64(0), uint64(0)
	for _, p := range a.appendMFPPlaces(slot, nil, true) {
		mfps++
		bytes += uint64(p.Size)
	}
	a.Finish([]uint32{uint32(slot)}, mfps, bytes)
}

// badAnnounce says what contradicts what was said, or what can be.
func (m *assemblerModel) badAnnounce(t *rapid.T) {
	i := rapid.IntRange(0, len(m.slots)-1).Draw(t, "slot")
	ru := rapid.IntRange(0, m.rus-1).Draw(t, "ru")
	s := &m.slots[i]
	bad := placing.Announce{
		RU:          uint16(ru),
		Slot:        uint32(i),
		MEP:         s.mep,
		Attempt:     s.attempt,
		StreamCount: uint16(len(s.sizes[ru])),
		Entries:     []placing.Entry{{Size: 40}},
	}
	if len(s.messages[ru]) > 0 {
		bad = *s.messages[ru][0]
		bad.Entries = slices.Clone(bad.Entries)
		switch rapid.IntRange(0, 8).Draw(t, "fault") {
		case 0:
			bad.FirstStream++
		case 1:
			bad.Entries = nil
		case 2:
			bad.StreamCount = bad.FirstStream
		case 3:
			bad.Entries[len(bad.Entries)-1].Size = rapid.Uint32Range(0, event.MFPFixedSize-1).Draw(t, "size")
		case 4:
			bad.RU = uint16(m.rus)
		case 5:
			bad.Slot = uint32(len(m.slots))
		case 6:
			bad.MEP += 100
			if !s.busy {
				t.Skip("a free slot takes any MEP")
			}
		case 7:
			bad.Attempt++
			if !s.busy {
				t.Skip("a free slot takes any attempt")
			}
		default:
			bad.StreamCount++
			if bad.FirstStream == 0 {
				t.Skip("nobody has said how many there are")
			}
		}
	}
	m.refused(t, func() {
		ready, err := m.a.Announce(&bad)
		var refused *announceError
		if ready || !errors.As(err, &refused) || refused.MEP != bad.MEP || refused.Slot != bad.Slot ||
			refused.RU != int(bad.RU) {
			t.Fatalf("%v %v", ready, err)
		}
	})
	m.want.RefusedAnnouncements++
}

// badPlace tells of bytes that no grant explains.
func (m *assemblerModel) badPlace(t *rapid.T) {
	i := rapid.IntRange(-1, len(m.slots)).Draw(t, "slot")
	ru := rapid.IntRange(-1, m.rus).Draw(t, "ru")
	ref, n := shmem.Ref{}, uint32(4)
	if i >= 0 && i < len(m.slots) && ru >= 0 && ru < m.rus && m.slots[i].ready {
		ref = m.slots[i].refs[ru]
		switch rapid.IntRange(0, 3).Draw(t, "fault") {
		case 0:
			n = uint32(m.slots[i].remaining[ru]) + 1
		case 1:
			n = 0
		case 2:
			n = 1<<32 - 1
		default:
			ref.Gen++
		}
	}
	m.refused(t, func() {
		if got := placed(m.a, i, ru, ref, n); got != CompletedNothing {
			t.Fatalf("%v is in place", got)
		}
	})
	m.want.RejectedPlacements++
}

func (m *assemblerModel) finish(t *rapid.T) {
	for i := range m.slots {
		s := &m.slots[i]
		if !s.complete {
			continue
		}
		m.want.BuiltMEPs++
		for ru := range m.rus {
			m.want.PlacedMFPs += uint64(len(s.sizes[ru]))
			for _, size := range s.sizes[ru] {
				m.want.BuiltBytes += uint64(size)
			}
		}
		finish(m.a, i)
		m.plan(t, i)
	}
}

func (m *assemblerModel) abandon(t *rapid.T) {
	i := rapid.IntRange(0, len(m.slots)-1).Draw(t, "slot")
	if m.slots[i].busy {
		m.want.IncompleteMEPs++
	}
	m.a.abandonSlot(i)
	m.plan(t, i)
}

func (m *assemblerModel) check(t *rapid.T) {
	checkAssembler(t, m.a, m.want, len(m.slots), func(i int) bool { return m.slots[i].busy })
}

// checkAssembler compares an assembler with a model of it: what it counted, and which slots are busy.
func checkAssembler(t *rapid.T, a *Assembler, want Stats, slots int, isBusy func(slot int) bool) {
	if got := a.Stats(); got != want {
		t.Fatalf("counted %+v, not %+v", got, want)
	}
	var busy []int
	for i := range slots {
		if isBusy(i) {
			busy = append(busy, i)
		}
	}
	if got := a.AppendUnfinished(nil); !slices.Equal(got, busy) {
		t.Fatalf("unfinished %v, not %v", got, busy)
	}
}

func TestAssemblerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newAssemblerModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "announce": m.announce, "announce more": m.announce, "announce on": m.announce, "place": m.place,
			"place more": m.place, "place on": m.place, "bad announce": m.badAnnounce, "bad place": m.badPlace,
			"finish":  m.finish,
			"abandon": m.abandon,
		})
	})
}

// TestHugeSizes holds that sizes as large as they can be told add up to a sentence with the right number.
func TestHugeSizes(t *testing.T) {
	a := NewAssembler(2, 1, modelSlotSize, Pull{})
	entries := slices.Repeat([]placing.Entry{{Size: 1<<32 - 1}}, placing.MaxEntries)
	const each = event.MaxMFPs / 2
	var err error
	ready := false
	for ru := range 2 {
		for first := 0; first < each; first += placing.MaxEntries {
			m := placing.Announce{
				RU:          uint16(ru),
				Attempt:     1,
				FirstStream: uint16(first),
				StreamCount: each,
				Entries:     entries[:min(placing.MaxEntries, each-first)],
			}
			if ready, err = a.Announce(&m); err != nil {
				break
			}
		}
	}
	var small *SlotTooSmallError
	want := event.MEPHeaderSize(2*each) + 2*each<<32
	if !ready || !errors.As(err, &small) || small.Need != want || small.Have != modelSlotSize {
		t.Errorf("%v %v, it needs %d", ready, err, want)
	}
}

// TestTooManySources holds that a MEP of more MFPs than its header can count is refused when it is announced.
func TestTooManySources(t *testing.T) {
	a := NewAssembler(2, 1, modelSlotSize, Pull{})
	for ru, n := range []uint16{40000, 25536} {
		_, err := a.Announce(&placing.Announce{RU: uint16(ru), StreamCount: n, Entries: []placing.Entry{{Size: 20}}})
		var refused *announceError
		if ru == 0 && err != nil || ru == 1 && (!errors.As(err, &refused) ||
			refused.Reason != "that makes 65536 MFPs, a MEP holds 65535") {
			t.Error(err)
		}
	}
}

// circuit assembles one MEP after the other.
type circuit struct {
	a     *Assembler
	m     []placing.Announce
	mep   uint64
	refs  []shmem.Ref
	place []mfpPlace
	slot  [1]uint32
}

// newCircuit has small MEPs, as with packing 1: three streams of 40 bytes per readout unit.
func newCircuit(rus int) *circuit {
	c := &circuit{a: NewAssembler(rus, 4, 4096, Pull{})}
	for ru := range rus {
		c.m = append(c.m, placing.Announce{
			RU:          uint16(ru),
			Attempt:     1,
			StreamCount: 3,
			Entries:     slices.Repeat([]placing.Entry{{Size: 40}}, 3),
		})
	}
	return c
}

func (c *circuit) turn() bool {
	slot := int(c.mep % 4)
	ready, isComplete := false, false
	for ru := range c.m {
		m := &c.m[ru]
		m.MEP, m.Slot = c.mep, uint32(slot)
		var err error
		if ready, err = c.a.Announce(m); err != nil {
			return false
		}
	}
	for _, ru, ok := c.a.NextRequest(); ok; _, ru, ok = c.a.NextRequest() {
		ref := shmem.Ref{Window: uint32(ru), Gen: uint32(c.mep) + 1}
		c.a.RecordGrant(slot, ru, ref)
		_, size := c.a.PartRange(slot, ru)
		isComplete = placed(c.a, slot, ru, ref, uint32(size)) == CompletedMEP
	}
	c.place, c.refs = c.a.appendMFPPlaces(slot, c.place[:0], false), c.a.appendMEPRefs(slot, c.refs[:0])
	c.slot[0] = uint32(slot)
	c.a.Finish(c.slot[:], uint64(len(c.place)), 0)
	c.mep++
	return ready && isComplete && len(c.place) == 3*len(c.m) && len(c.refs) == len(c.m)
}

func TestAssemblerDoesNotAllocate(t *testing.T) {
	c := newCircuit(4)
	run := func() {
		if !c.turn() {
			t.Fatal("the MEP is not whole")
		}
	}
	for range 10 {
		run()
	}
	if n := testing.AllocsPerRun(1000, run); n > 0 {
		t.Errorf("%v allocations per MEP", n)
	}
}

// BenchmarkAssembler is the whole way of a small MEP of four readout units through the core.
func BenchmarkAssembler(b *testing.B) {
	c := newCircuit(4)
	for b.Loop() {
		if !c.turn() {
			b.Fatal("the MEP is not whole")
		}
	}
	if s := c.a.Stats(); s.BuiltMEPs != c.mep || s.PlacedMFPs != 12*c.mep {
		b.Fatalf("%+v", s)
	}
	b.ReportAllocs()
}
