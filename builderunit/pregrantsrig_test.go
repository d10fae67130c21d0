package builderunit

import (
	"sync"
	"testing"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

// preGrantedRig is a rig whose windows are pre-granted.
type preGrantedRig struct {
	*rig
	windows *windowRecorder
}

// newPreGrantedRig makes a builder unit with three readout units, at ranks that are not their indices.
func newPreGrantedRig(t *testing.T, slots int, change func(*rig, *Config)) *preGrantedRig {
	t.Helper()
	r := &preGrantedRig{windows: &windowRecorder{refs: map[int][]shmem.Ref{}}}
	r.rig = newRigWithSlots(t, slots, func(rr *rig, c *Config) {
		r.configure(rr, c)
		if change != nil {
			change(rr, c)
		}
	})
	for _, rank := range r.ranks {
		r.requestWindows(rank)
	}
	return r
}

// configure makes a configuration that shares the slots out.
func (r *preGrantedRig) configure(rr *rig, c *Config) {
	var blocks []int
	for ru := range rr.ranks {
		block := 0
		for s := range rigDivision.SourceCount(ru) {
			block += paddedBytes(uint32(rr.rule.MaxMFP(uint16(rigDivision.FirstSource(ru)+s), rigPacking)))
		}
		blocks = append(blocks, block)
	}
	l, err := placing.NewLayout(rigDivision, blocks)
	if err != nil {
		rr.t.Fatal(err)
	}
	c.Layout, c.Packing, c.Signaler = l, rigPacking, r.windows
}

func (r *preGrantedRig) requestWindows(rank int) {
	r.t.Helper()
	if err := r.b.AnswerWindowRequest(rank, placing.AppendWindowRequest(nil)); err != nil {
		r.t.Fatal(err)
	}
}

// part makes a readout unit's part of a MEP: entries, then the MFPs.
func (r *preGrantedRig) part(ru int, mep uint64) *piece {
	r.t.Helper()
	return r.piece(ru, mep*rigPacking).withEntries()
}

// withEntries puts a piece's entries in front of its data.
func (p *piece) withEntries() *piece {
	head := make([]byte, len(p.entries)*placing.EntrySize)
	for i, e := range p.entries {
		placing.PutEntry(head, i, e)
	}
	return &piece{ru: p.ru, data: append(head, p.data...), entries: p.entries}
}

// place writes a part into its window of a slot, and returns the notice of it.
func (r *preGrantedRig) place(p *piece, slot int, mep uint64, attempt uint8) transport.Placement {
	r.t.Helper()
	rank := r.ranks[p.ru]
	ref := r.windows.refsOfRank(rank)[slot]
	dst, v := r.table.Acquire(shmem.Peer(rank), ref, 0, uint32(len(p.data)), shmem.AccessNwrite)
	if v != 0 {
		r.t.Fatal(v)
	}
	copy(dst, p.data)
	r.table.Release(ref)
	return transport.Placement{Ref: ref, Length: uint32(len(p.data)), Imm: placing.Immediate(mep, attempt, uint32(slot))}
}

// buildPreGranted takes one MEP through the unit.
func (r *preGrantedRig) buildPreGranted(slot int, mep uint64) {
	r.t.Helper()
	for ru, rank := range r.ranks {
		r.b.Placed(rank, r.place(r.part(ru, mep), slot, mep, 1))
	}
}

// windowRecorder is a Signaler that keeps pre-grants.
type windowRecorder struct {
	fail error // outcome of Signal

	mu      sync.Mutex
	refs    map[int][]shmem.Ref // by rank
	signals int
}

func (f *windowRecorder) Signal(rank int, payload []byte) error {
	var s placing.PreGrants
	if err := s.Parse(payload); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signals++
	f.refs[rank] = f.refs[rank][:s.FirstSlot]
	for _, ref := range s.Refs {
		f.refs[rank] = append(f.refs[rank], shmem.Ref(ref))
	}
	return f.fail
}

func (f *windowRecorder) refsOfRank(rank int) []shmem.Ref {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refs[rank]
}

// torrent is a builder unit fed as fast as it goes: two readout units of one stream, constant fragments, packing 1.
type torrent struct {
	b       *Builder
	slots   *shmem.Slots
	layout  *placing.Layout
	windows *windowRecorder
	free    chan []uint32           // slots given back
	spare   chan []uint32           // empty lists for more
	batches [][]transport.Placement // by readout unit
	mep     uint64
}

const (
	torrentSlots = 1024
	torrentBatch = 256
	fragment     = 128
)

func newTorrent(tb testing.TB, verify Verify) *torrent {
	tb.Helper()
	rule, err := pattern.New(pattern.Config{
		Seed:         3,
		Sources:      2,
		FragmentSize: fragment,
		Model:        pattern.Constant,
	})
	if err != nil {
		tb.Fatal(err)
	}
	t := &torrent{
		windows: &windowRecorder{refs: map[int][]shmem.Ref{}},
		free:    make(chan []uint32, torrentSlots),
		spare:   make(chan []uint32, torrentSlots),
		batches: make([][]transport.Placement, 2),
	}
	block := paddedBytes(uint32(rule.MaxMFP(0, 1)))
	if t.layout, err = placing.NewLayout(placing.EvenDivision(2, 1), []int{block, block}); err != nil {
		tb.Fatal(err)
	}
	if t.slots, err = shmem.CreateSlots("ringlet-test-torrent", torrentSlots, t.layout.Size(),
		shmem.WithDir(tb.TempDir())); err != nil {
		tb.Fatal(err)
	}
	t.b, err = New(Config{
		Slots:     t.slots,
		Table:     shmem.NewTable(2 * torrentSlots),
		Signaler:  t.windows,
		RURanks:   []int{0, 1},
		Verify:    verify,
		Layout:    t.layout,
		Sink:      &sink.Discard{},
		Fail:      func(err error) { tb.Error(err) },
		OnResults: t.feedback,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := t.b.Close(); err != nil {
			tb.Error(err)
		}
		if err := t.slots.Close(); err != nil {
			tb.Error(err)
		}
	})
	for rank := range 2 {
		if err := t.b.AnswerWindowRequest(rank, placing.AppendWindowRequest(nil)); err != nil {
			tb.Fatal(err)
		}
	}
	t.fill(tb, rule)
	for range torrentSlots / 2 {
		t.spare <- make([]uint32, 0, torrentSlots)
	}
	for i := 0; i < torrentSlots; i += torrentBatch {
		s := patiently.Receive(tb, t.spare)
		for k := range torrentBatch {
			s = append(s, uint32(i+k))
		}
		t.free <- s
	}
	return t
}

// fill puts a part into every window. They stay the same from MEP to MEP: nobody checks event ids.
func (t *torrent) fill(tb testing.TB, rule *pattern.Pattern) {
	for slot := range t.slots.Len() {
		for ru := range 2 {
			off, _ := t.layout.PartRange(ru)
			part := t.slots.Bytes(slot)[off:]
			size, crc, err := rule.FillMFP(part[placing.EntrySize:], uint16(ru), uint64(slot), 1, true)
			if err != nil {
				tb.Fatal(err)
			}
			placing.PutEntry(part, 0, placing.Entry{Size: uint32(size), CRC: crc})
		}
	}
}

func (t *torrent) feedback(results []MEPResult) error {
	s := <-t.spare // bounded by Watch, or by the time that a benchmark is given
	for i := range results {
		s = append(s, results[i].Slot)
	}
	t.free <- s
	return nil
}

// turn gives the slots of one feedback the next MEPs, and returns how many.
func (t *torrent) turn() int {
	slots := <-t.free // bounded by Watch, or by the time that a benchmark is given
	length := uint32(placing.EntrySize + paddedBytes(uint32(event.MaxMFPSize(1, fragment, 0))))
	for ru := range 2 {
		batch, refs := t.batches[ru][:0], t.windows.refs[ru]
		for i, slot := range slots {
			batch = append(batch, transport.Placement{
				Ref: refs[slot], Length: length, Imm: placing.Immediate(t.mep+uint64(i), 1, slot),
			})
		}
		t.batches[ru] = batch
		t.b.PlacedMany(ru, batch)
	}
	n := len(slots)
	t.mep += uint64(n)
	t.spare <- slots[:0]
	return n
}
