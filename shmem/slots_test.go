package shmem

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func TestSlotsLayoutAndSteps(t *testing.T) {
	const size = PageSize + 64 // lines, not pages
	dir := testDir(t)
	s, err := CreateSlots("ringlet-1-slots", 70, size-1, WithDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if s.Len() != 70 || s.SlotSize() != size || s.Offset(1) != 2*PageSize+size || s.Offset(70) != -1 || s.Bytes(-1) != nil {
		t.Errorf("geometry: %d × %d, slot 1 at %d", s.Len(), s.SlotSize(), s.Offset(1))
	}
	s.Bytes(69)[size-1] = 9

	// Another process would see the same, and may not take a step.
	o, err := OpenSlots("ringlet-1-slots", WithDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	if o.Bytes(69)[size-1] != 9 {
		t.Error("the last byte is not shared")
	}
	if err := o.Offer(0); !errors.Is(err, ErrReadOnly) {
		t.Errorf("step by a watcher: %v", err)
	}

	const tag = 77
	for _, c := range []struct {
		what string
		do   func() error
		want error
		info SlotInfo
	}{
		{"fill a free one", func() error { return s.Fill(5, tag) }, ErrSlotState, SlotInfo{}},
		{"offer", func() error { return s.Offer(5) }, nil, SlotInfo{SlotOffered, 1, 0, 0}},
		{"offer twice", func() error { return s.Offer(5) }, ErrSlotState, SlotInfo{SlotOffered, 1, 0, 0}},
		{"fill", func() error { return s.Fill(5, tag) }, nil, SlotInfo{SlotFilling, 2, 0, tag}},
		{"build too much", func() error { return s.Build(5, size+1) }, ErrBadSize, SlotInfo{SlotFilling, 2, 0, tag}},
		{"build", func() error { return s.Build(5, size) }, nil, SlotInfo{SlotBuilt, 3, size, tag}},
		{"abandon a built one", func() error { return s.Abandon(5) }, ErrSlotState, SlotInfo{SlotBuilt, 3, size, tag}},
		{"free", func() error { return s.Free(5) }, nil, SlotInfo{SlotFree, 4, 0, 0}},
		{"offer anew", func() error { return s.Offer(5) }, nil, SlotInfo{SlotOffered, 5, 0, 0}},
		{"turn, and turn another that is free", func() error { return s.Turn([]uint32{5, 6}) }, ErrSlotState, SlotInfo{SlotOffered, 9, 0, 0}},
		{"turn one beyond", func() error { return s.Turn([]uint32{70}) }, ErrNoSlot, SlotInfo{SlotOffered, 9, 0, 0}},
		{"withdraw", func() error { return s.Withdraw(5) }, nil, SlotInfo{SlotFree, 10, 0, 0}},
		{"slot beyond", func() error { return s.Offer(70) }, ErrNoSlot, SlotInfo{SlotFree, 10, 0, 0}},
		{"slot before", func() error { return s.Free(-1) }, ErrNoSlot, SlotInfo{SlotFree, 10, 0, 0}},
	} {
		err := c.do()
		var se *SlotError
		if !errors.Is(err, c.want) || c.want != nil && !errors.As(err, &se) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		for _, view := range []*Slots{s, o} {
			if got, err := view.Info(5); err != nil || got != c.info {
				t.Errorf("after %s: %+v, %v; want %+v", c.what, got, err, c.info)
			}
		}
	}
	if err := o.Turn([]uint32{5}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("turn by a watcher: %v", err)
	}
	if st := s.Stats(); st.HighWater != 1 || st.InUse != 0 || st.Free != 70 || st.Builds != 2 || st.Offers != 3 || st.Refused != 8 {
		t.Errorf("stats %+v", st)
	}
}

func TestOpenSlotsRefusesNonsense(t *testing.T) {
	dir := testDir(t)
	s, err := CreateSlots("s", 2, PageSize, WithDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	le, mem := binary.LittleEndian, s.Segment().Bytes()
	for _, off := range []int{offMagic, offVersion, offSlotCount, offSlotSize, offSlotData} {
		for _, v := range []uint64{0, 1 << 20, 1 << 40, ^uint64(0)} {
			old := le.Uint64(mem[off:])
			le.PutUint64(mem[off:], v)
			var ce *CorruptError
			if _, err := OpenSlots("s", WithDir(dir)); !errors.As(err, &ce) {
				t.Errorf("%#x at %#x: %v", v, off, err)
			}
			le.PutUint64(mem[off:], old)
		}
	}
	for _, state := range []uint64{4, busy, 0xFF} {
		le.PutUint64(mem[slotLine:], state)
		var ce *CorruptError
		if _, err := s.Info(0); !errors.As(err, &ce) {
			t.Errorf("state %#x: %v", state, err)
		}
		if err := s.Offer(0); !errors.Is(err, ErrSlotState) {
			t.Errorf("step from state %#x: %v", state, err)
		}
	}
	if st := s.Stats(); st.Corrupt != 1 || st.Free != 1 {
		t.Errorf("stats %+v", st)
	}
	image(t, dir, "short", make([]byte, 100))
	var ce *CorruptError
	if _, err := OpenSlots("short", WithDir(dir)); !errors.As(err, &ce) {
		t.Errorf("short file: %v", err)
	}
	for _, c := range [][2]int{{0, 1}, {1, 0}, {-1, 1}, {maxSlots + 1, 1}, {maxSlots, 1 << 60}} {
		if _, err := CreateSlots("t", c[0], c[1], WithDir(dir)); !errors.Is(err, ErrBadSize) {
			t.Errorf("%d slots of %d: %v", c[0], c[1], err)
		}
	}
}

// TestOneOwner lets goroutines race for the same slots: each step is won by one.
func TestOneOwner(t *testing.T) {
	s, err := CreateSlots("s", 2, PageSize, WithDir(testDir(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var wg sync.WaitGroup
	var won atomic.Int64
	owners := make([]int, 2) // plain: the race detector sees two owners at a time
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				k := i % 2
				if s.Offer(k) != nil {
					continue
				}
				owners[k]++
				if s.Fill(k, uint64(i)) != nil || s.Build(k, i) != nil || s.Free(k) != nil {
					t.Error("the owner's step was refused")
				}
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if n := owners[0] + owners[1]; int64(n) != won.Load() {
		t.Errorf("%d wins, %d counted", won.Load(), n)
	}
}

// BenchmarkTurn compares a slot's turn with the steps it stands for.
func BenchmarkTurn(b *testing.B) {
	s, err := CreateSlots("s", 4096, 512, WithDir(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	batch := make([]uint32, s.Len())
	for i := range batch {
		batch[i] = uint32(i)
		if err := s.Offer(i); err != nil {
			b.Fatal(err)
		}
	}
	turn := func() error { return s.Turn(batch) }
	perSlot := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := turn(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/slot")
	}
	b.Run("turn", perSlot)
	turn = func() error {
		for i := range s.Len() {
			if err := errors.Join(s.Fill(i, 1), s.Build(i, 1), s.Free(i), s.Offer(i)); err != nil {
				return err
			}
		}
		return nil
	}
	b.Run("steps", perSlot)
}

func TestTurnDoesNotAllocate(t *testing.T) {
	s, err := CreateSlots("s", 4, 64, WithDir(testDir(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	batch := []uint32{2, 0, 3}
	for _, i := range batch {
		if err := s.Offer(int(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Turn(batch); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSlotsAgreeWithModel(t *testing.T) {
	s, err := CreateSlots("s", 3, PageSize, WithDir(testDir(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	steps := []struct {
		from, to SlotState
		do       func(i int) error
	}{
		{SlotFree, SlotOffered, s.Offer},
		{SlotOffered, SlotFilling, func(i int) error { return s.Fill(i, 1) }},
		{SlotFilling, SlotBuilt, func(i int) error { return s.Build(i, 1) }},
		{SlotBuilt, SlotFree, s.Free},
		{SlotFilling, SlotFree, s.Abandon},
		{SlotOffered, SlotFree, s.Withdraw},
		{SlotOffered, SlotOffered, func(i int) error { return s.Turn([]uint32{uint32(i)}) }},
	}
	model := make([]SlotState, 3)
	rapid.Check(t, func(t *rapid.T) {
		for range 50 {
			i := rapid.IntRange(0, 2).Draw(t, "slot")
			step := rapid.SampledFrom(steps).Draw(t, "step")
			if err := step.do(i); (err == nil) != (model[i] == step.from) {
				t.Fatalf("%v to %v while %v: %v", step.from, step.to, model[i], err)
			} else if err == nil {
				model[i] = step.to
			}
			st := s.Stats()
			if st.Free+st.Offered+st.Filling+st.Built != 3 || st.InUse != 3-st.Free || st.HighWater < st.InUse {
				t.Fatalf("stats %+v", st)
			}
		}
	})
}
