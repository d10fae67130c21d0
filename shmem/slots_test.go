package shmem

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

func TestSlotsLayoutAndSteps(t *testing.T) {
	const size = PageSize + 64 // lines, not pages
	dir := must.MemoryDir(t)
	s, err := CreateSlots("ringlet-1-slots", 70, size-1, WithDir(dir))
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	if s.Len() != 70 || s.SlotSize() != size || s.Offset(1) != size || s.Offset(70) != -1 || s.Bytes(-1) != nil {
		t.Errorf("geometry: %d × %d, slot 1 at %d", s.Len(), s.SlotSize(), s.Offset(1))
	}
	s.Bytes(69)[size-1] = 9
	if mem := s.Segment().Bytes(); mem[len(mem)-1] != 9 {
		t.Error("the last byte of the last slot is not that of the segment")
	}

	for _, c := range []struct {
		what string
		do   func() error
		want error
		is   SlotState
	}{
		{"fill a free one", func() error { return s.Fill(5) }, ErrSlotState, SlotFree},
		{"offer", func() error { return s.Offer(5) }, nil, SlotOffered},
		{"offer twice", func() error { return s.Offer(5) }, ErrSlotState, SlotOffered},
		{"fill", func() error { return s.Fill(5) }, nil, SlotFilling},
		{"build", func() error { return s.Build(5) }, nil, SlotBuilt},
		{"abandon a built one", func() error { return s.Abandon(5) }, ErrSlotState, SlotBuilt},
		{"free", func() error { return s.Free(5) }, nil, SlotFree},
		{"offer anew", func() error { return s.Offer(5) }, nil, SlotOffered},
		{"turn with a free one", func() error { return s.Recycle([]uint32{5, 6}) }, ErrSlotState, SlotOffered},
		{"turn one beyond", func() error { return s.Recycle([]uint32{70}) }, errNoSlot, SlotOffered},
		{"withdraw", func() error { return s.Withdraw(5) }, nil, SlotFree},
		{"slot beyond", func() error { return s.Offer(70) }, errNoSlot, SlotFree},
		{"slot before", func() error { return s.Free(-1) }, errNoSlot, SlotFree},
		{"take back one beyond", func() error { return s.ForceFree(70) }, errNoSlot, SlotFree},
	} {
		err := c.do()
		var op *opError
		if !errors.Is(err, c.want) || c.want != nil && !errors.As(err, &op) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if got := s.State(5); got != c.is {
			t.Errorf("after %s: %v, want %v", c.what, got, c.is)
		}
	}
	const sentence = "segment ringlet-1-slots slot 5: offered to filling while free: " +
		"the slot is not in the state this step begins from"
	if err := s.Fill(5); err == nil || err.Error() != sentence {
		t.Errorf("%v, want %s", err, sentence)
	}
	want := SlotStats{
		Slots:     70,
		Free:      70,
		Offers:    3,
		Builds:    2,
		Withdraws: 1,
	}
	if st := s.Stats(); st != want {
		t.Errorf("stats %+v, want %+v", st, want)
	}
}

func TestSlotsAreTakenBackFromWhoeverOwnsThem(t *testing.T) {
	s, err := CreateSlots("s", 4, 64, WithDir(must.MemoryDir(t)))
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	must.OK(t, errors.Join(s.Offer(1), s.Offer(2), s.Fill(2), s.Offer(3), s.Fill(3), s.Build(3)))
	for i := range s.Len() {
		if err := s.ForceFree(i); err != nil {
			t.Errorf("slot %d: %v", i, err)
		}
	}
	if st := s.Stats(); st.Free != 4 || st.Withdraws != 1 || st.Abandons != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestCreateSlotsRefuses(t *testing.T) {
	dir := must.MemoryDir(t)
	for _, c := range [][2]int{{0, 1}, {1, 0}, {-1, 1}, {maxSlots + 1, 1}, {maxSlots, 1 << 60}} {
		if _, err := CreateSlots("t", c[0], c[1], WithDir(dir)); !errors.Is(err, errBadSize) {
			t.Errorf("%d slots of %d: %v", c[0], c[1], err)
		}
	}
}

// TestOneOwner lets goroutines race for the same slots: each step is won by one.
func TestOneOwner(t *testing.T) {
	s, err := CreateSlots("s", 2, PageSize, WithDir(must.MemoryDir(t)))
	must.OK(t, err)
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
				if s.Fill(k) != nil || s.Build(k) != nil || s.Free(k) != nil {
					t.Error("the owner's step was refused")
				}
				won.Add(1)
			}
		})
	}
	patiently.Wait(t, wg.Wait)
	if n := owners[0] + owners[1]; int64(n) != won.Load() {
		t.Errorf("%d wins, %d counted", won.Load(), n)
	}
}

// BenchmarkTurn compares a slot's turn with the steps it stands for.
func BenchmarkTurn(b *testing.B) {
	s, err := CreateSlots("s", 4096, 512, WithDir(b.TempDir()))
	must.OK(b, err)
	defer func() { _ = s.Close() }()
	batch := make([]uint32, s.Len())
	for i := range batch {
		batch[i] = uint32(i)
		must.OK(b, s.Offer(i))
	}
	turn := func() error { return s.Recycle(batch) }
	perSlot := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must.OK(b, turn())
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/slot")
	}
	b.Run("turn", perSlot)
	turn = func() error {
		for i := range s.Len() {
			if err := errors.Join(s.Fill(i), s.Build(i), s.Free(i), s.Offer(i)); err != nil {
				return err
			}
		}
		return nil
	}
	b.Run("steps", perSlot)
}

func TestTurnDoesNotAllocate(t *testing.T) {
	s, err := CreateSlots("s", 4, 64, WithDir(must.MemoryDir(t)))
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	batch := []uint32{2, 0, 3}
	for _, i := range batch {
		must.OK(t, s.Offer(int(i)))
	}
	if n := testing.AllocsPerRun(100, func() {
		must.OK(t, s.Recycle(batch))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSlotsAgreeWithModel(t *testing.T) {
	s, err := CreateSlots("s", 3, PageSize, WithDir(must.MemoryDir(t)))
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	steps := []struct {
		from, to SlotState
		do       func(i int) error
	}{
		{SlotFree, SlotOffered, s.Offer},
		{SlotOffered, SlotFilling, s.Fill},
		{SlotFilling, SlotBuilt, s.Build},
		{SlotBuilt, SlotFree, s.Free},
		{SlotFilling, SlotFree, s.Abandon},
		{SlotOffered, SlotFree, s.Withdraw},
		{SlotOffered, SlotOffered, func(i int) error { return s.Recycle([]uint32{uint32(i)}) }},
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
			if st.Free+st.Offered+st.Filling+st.Built != 3 {
				t.Fatalf("stats %+v", st)
			}
		}
	})
}
