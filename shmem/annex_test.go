package shmem

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// lender is a buffer whose entries are blocks of slots.
type lender struct {
	w     *Writer
	slots *Slots
}

func newLender(t testing.TB, dir string, mode Mode, spare int) *lender {
	t.Helper()
	slots, err := CreateSlots("ringlet-1-slots", 2, 1000, WithDir(dir), WithSpare(spare, 32))
	must.OK(t, err)
	t.Cleanup(func() { _ = slots.Close() })
	w, err := CreateWriter("ringlet-1-buf", PageSize, mode, WithDir(dir), WithAnnex(slots.Segment()))
	must.OK(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return &lender{w: w, slots: slots}
}

// lend fills a slot as take looks at it, and lends it.
func (l *lender) lend(ctx context.Context, id uint32, n int) error {
	for l.slots.SpareBlocks() == 0 {
		back, err := l.w.AwaitReturned(ctx, nil)
		if err != nil {
			return err
		}
		for _, offset := range back {
			l.slots.Return(offset)
		}
	}
	slot := int(id) % l.slots.Len()
	if err := errors.Join(l.slots.Offer(slot), l.slots.Fill(slot), l.slots.Build(slot)); err != nil {
		return err
	}
	block := l.slots.BlockBytes(slot)[:n]
	for i := range block {
		block[i] = byte(id) + byte(i)
	}
	p, err := l.w.Reserve(ctx, LentEntrySize)
	if err != nil {
		return err
	}
	offset, err := l.slots.Lend(slot)
	if err != nil {
		return err
	}
	return errors.Join(l.w.Lend(p, offset, n, id), l.slots.Free(slot))
}

// TestLentOverThreads lends blocks to readers with mappings of their own: nobody sees a block that was used again, and
// every block comes back.
func TestLentOverThreads(t *testing.T) {
	const entries, readers, spare = 3000, 3, 4
	for _, mode := range []Mode{Broadcast, Sharing} {
		t.Run(mode.String(), func(t *testing.T) {
			dir := must.MemoryDir(t)
			l := newLender(t, dir, mode, spare)
			var got [readers]int
			var wg sync.WaitGroup
			for k := range readers {
				r := newTestReader(t, WithDir(dir))
				wg.Go(func() {
					for {
						_, err := readEntry(r)
						if errors.Is(err, ErrEndOfRun) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						got[k]++
					}
				})
			}
			must.OK(t, waitReaders(t.Context(), l.w, readers))
			for i := range entries {
				if i%7 == 0 {
					putEntry(t, l.w, uint32(i), i%300) // copied ones between
					continue
				}
				must.OK(t, l.lend(t.Context(), uint32(i), i%1032))
			}
			must.OK(t, l.w.drain(t.Context()))
			back, err := l.w.AwaitReturned(t.Context(), nil)
			if must.OK(t, err); len(back)+l.slots.SpareBlocks() != spare {
				t.Errorf("%d blocks came back, %d are spare", len(back), l.slots.SpareBlocks())
			}
			must.OK(t, l.w.End())
			patiently.Wait(t, wg.Wait)
			sum := got[0] + got[1] + got[2]
			if want := map[Mode]int{Broadcast: readers * entries, Sharing: entries}[mode]; sum != want {
				t.Errorf("%d entries were read, want %d", sum, want)
			}
		})
	}
}

func TestLendRefuses(t *testing.T) {
	l := newLender(t, must.MemoryDir(t), Broadcast, 1)
	size := len(l.slots.Segment().Bytes())
	place := func(n int) Place {
		t.Helper()
		p, err := l.w.Reserve(t.Context(), n)
		must.OK(t, err)
		return p
	}
	for _, c := range []struct {
		offset, n, reserved int
		kind                uint32
	}{
		{-1, 1, LentEntrySize, 1}, {0, -1, LentEntrySize, 1}, {0, size + 1, LentEntrySize, 1}, {size, 1, LentEntrySize, 1},
		{size + 1, 0, LentEntrySize, 1}, {0, 1, LentEntrySize + 1, 1}, {0, 1, LentEntrySize, padType},
	} {
		p := place(c.reserved)
		if err := l.w.Lend(p, c.offset, c.n, c.kind); !errors.Is(err, errBadEntry) {
			t.Errorf("%+v: %v", c, err)
		}
		must.OK(t, l.w.core.cancel(p))
	}
	if err := l.w.Lend(Place{ticket: 99}, 0, 1, 1); !errors.Is(err, errNotOutstanding) {
		t.Errorf("a place that is not out: %v", err)
	}
	if _, err := l.w.AwaitReturned(t.Context(), nil); !errors.Is(err, errNotOutstanding) {
		t.Errorf("nothing is lent: %v", err)
	}
	if _, err := l.slots.Lend(0); !errors.Is(err, ErrSlotState) {
		t.Errorf("a free slot: %v", err)
	}
	must.OK(t, l.lend(t.Context(), 1, 8))
	must.OK(t, errors.Join(l.slots.Offer(0), l.slots.Fill(0), l.slots.Build(0)))
	if _, err := l.slots.Lend(0); !errors.Is(err, errNoSpare) {
		t.Errorf("no block is spare: %v", err)
	}
	must.OK(t, l.w.Close())
	if err := l.w.Lend(Place{}, 0, 1, 1); !errors.Is(err, errClosed) {
		t.Errorf("after close: %v", err)
	}
}

// TestAnnexIsGone opens a buffer whose annex is not there any more, or is another one.
func TestAnnexIsGone(t *testing.T) {
	dir := must.MemoryDir(t)
	l := newLender(t, dir, Broadcast, 1)
	must.OK(t, l.slots.Close())
	if _, err := OpenReader("ringlet-1-buf", WithDir(dir)); !errors.Is(err, ErrNotFound) {
		t.Errorf("without it: %v", err)
	}
	other, err := Create("ringlet-1-slots", 64, WithDir(dir))
	must.OK(t, err)
	defer func() { _ = other.Close() }()
	var corrupt *corruptError
	if _, err := OpenReader("ringlet-1-buf", WithDir(dir)); !errors.As(err, &corrupt) {
		t.Errorf("another one: %v", err)
	}
}

// feed lends n entries and says what a reader sums up.
func (l *lender) feed(t *testing.T, n int) string {
	t.Helper()
	bytes, sum := 0, 0
	for i := range n {
		size := i % 1032
		must.OK(t, l.lend(t.Context(), uint32(i), size))
		for k := range size {
			sum += int(byte(i) + byte(k))
		}
		bytes += size
	}
	must.OK(t, l.w.End())
	return fmt.Sprintf("entries %d bytes %d sum %d", n, bytes, sum)
}

func TestCReaderOfLent(t *testing.T) {
	exe := cReader(t)
	dir := must.MemoryDir(t)
	l := newLender(t, dir, Broadcast, 3)
	cmd := exec.Command(exe, filepath.Join(dir, "ringlet-1-buf"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	c := &child{cmd: cmd, out: bufio.NewScanner(out), in: nopCloser{}}
	t.Cleanup(c.kill)
	c.line(t)
	want := l.feed(t, 3000)
	if got := c.line(t); got != want {
		t.Errorf("C says: %s; want %s", got, want)
	}
	c.finish(t)
}

func TestLendingDoesNotAllocate(t *testing.T) {
	dir := must.MemoryDir(t)
	l := newLender(t, dir, Broadcast, 4)
	r := newTestReader(t, WithDir(dir))
	ctx, back := t.Context(), make([]int, 0, 8)
	id := uint32(0)
	if n := testing.AllocsPerRun(200, func() {
		id++
		must.OK(t, l.lend(ctx, id, 100))
		e, err := r.Next(ctx)
		must.OK(t, errors.Join(err, r.Ack(e)))
		back, err = l.w.AwaitReturned(ctx, back[:0])
		must.OK(t, err)
		for _, offset := range back {
			l.slots.Return(offset)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
