package shmem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

func newTestWriter(t testing.TB, pages int, mode Mode) (*Writer, Option) {
	t.Helper()
	dir := WithDir(must.MemoryDir(t))
	w, err := CreateWriter("ringlet-1-buf", pages*PageSize, mode, dir)
	must.OK(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w, dir
}

func newTestReader(t testing.TB, dir Option) *Reader {
	t.Helper()
	r, err := OpenReader("ringlet-1-buf", dir)
	must.OK(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func putEntry(t testing.TB, w *Writer, id uint32, n int) {
	t.Helper()
	p, err := w.Reserve(context.Background(), n)
	if err == nil {
		for i := range p.Data {
			p.Data[i] = byte(id) + byte(i)
		}
		err = w.Commit(p, n, id)
	}
	if err != nil {
		t.Error(err)
	}
}

// readEntry reads one entry and checks its bytes before and after giving others time to spoil them.
func readEntry(r *Reader) (uint32, error) {
	e, err := r.Next(context.Background())
	if err != nil {
		return 0, err
	}
	for i, b := range e.Data {
		if b != byte(e.Type)+byte(i) {
			return 0, fmt.Errorf("entry %d byte %d is %d", e.Type, i, b)
		}
	}
	return e.Type, r.Ack(e)
}

// TestBufferOverThreads passes entries of all sizes from one goroutine to several, each with a
// mapping of its own, through a buffer that wraps often and blocks both sides.
func TestBufferOverThreads(t *testing.T) {
	const entries, readers = 4000, 3
	for _, mode := range []Mode{Broadcast, Sharing} {
		t.Run(mode.String(), func(t *testing.T) {
			w, dir := newTestWriter(t, 2, mode)
			var got [entries]atomic.Int32
			var wg sync.WaitGroup
			for range readers {
				r := newTestReader(t, dir)
				wg.Go(func() {
					last := -1
					for {
						id, err := readEntry(r)
						if errors.Is(err, ErrEndOfRun) {
							return
						}
						if err != nil || int(id) <= last || mode == Broadcast && int(id) != last+1 {
							t.Errorf("entry %d after %d: %v", id, last, err)
							return
						}
						last = int(id)
						got[id].Add(1)
					}
				})
			}
			must.OK(t, waitReaders(t.Context(), w, readers))
			for i := range entries {
				putEntry(t, w, uint32(i), (i*i*7)%(w.core.buffer.maxEntry()/(1+i%20)))
			}
			if err := w.drain(t.Context()); err != nil {
				t.Error(err)
			}
			if err := w.End(); err != nil {
				t.Error(err)
			}
			patiently.Wait(t, wg.Wait)
			want := map[Mode]int32{Broadcast: readers, Sharing: 1}[mode]
			for i := range got {
				if n := got[i].Load(); n != want {
					t.Fatalf("entry %d was read %d times, want %d", i, n, want)
				}
			}
			if w.core.buffer.entriesLost.Load() != 0 {
				t.Errorf("lost %d", w.core.buffer.entriesLost.Load())
			}
		})
	}
}

// TestReadersComeAndGo attaches and detaches readers while entries flow: each sees an unbroken
// piece of the sequence, never an overwritten entry.
func TestReadersComeAndGo(t *testing.T) {
	w, dir := newTestWriter(t, 1, Broadcast)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for k := range 3 {
		wg.Go(func() {
			for round := 0; !stop.Load(); round++ {
				r, err := OpenReader("ringlet-1-buf", dir)
				if err != nil {
					t.Errorf("reader %d round %d: %v", k, round, err)
					return
				}
				var last uint32
				for i := range 20 {
					id, err := readEntry(r)
					if errors.Is(err, ErrEndOfRun) {
						break
					}
					if err != nil || i > 0 && id != last+1 {
						t.Errorf("reader %d round %d: entry %d after %d: %v", k, round, id, last, err)
						stop.Store(true)
						break
					}
					last = id
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range uint32(5000) {
		putEntry(t, w, i, int(i%300))
		if i%100 == 0 {
			if dead, err := w.DetachDead(); err != nil || len(dead) > 0 {
				t.Errorf("the living were detached: %v, %v", dead, err)
			}
		}
	}
	stop.Store(true)
	if err := w.End(); err != nil {
		t.Error(err)
	}
	patiently.Wait(t, wg.Wait)
	if w.core.buffer.entriesLost.Load() != 0 || attached(w) != 0 {
		t.Errorf("lost %d, %d readers", w.core.buffer.entriesLost.Load(), attached(w))
	}
}

func TestCancelWakesWaiters(t *testing.T) {
	w, dir := newTestWriter(t, 1, Broadcast)
	r := newTestReader(t, dir)
	blocked := func(what string, waits func() uint32, do func(ctx context.Context) error) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- do(ctx) }()
		patiently.Until(t, what+" waits", func() bool { return waits() > 0 })
		cancel()
		if err := patiently.Receive(t, done); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want canceled", what, err)
		}
		if err := do(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a dead context: %v", what, err)
		}
		if n := waits(); n != 0 {
			t.Errorf("%s: %d waiters left", what, n)
		}
	}
	blocked("next", w.core.buffer.entriesBell.waiters.Load,
		func(ctx context.Context) error { _, err := r.Next(ctx); return err })
	putEntry(t, w, 1, w.core.buffer.maxEntry())
	putEntry(t, w, 2, w.core.buffer.maxEntry())
	blocked("reserve", w.core.buffer.spaceBell.waiters.Load,
		func(ctx context.Context) error { _, err := w.Reserve(ctx, 1); return err })
	blocked("drain", w.core.buffer.spaceBell.waiters.Load, w.drain)
	blocked("wait for readers", w.core.buffer.spaceBell.waiters.Load,
		func(ctx context.Context) error { return waitReaders(ctx, w, 2) })
}

func TestBufferEnds(t *testing.T) {
	w, dir := newTestWriter(t, 1, Sharing)
	r := newTestReader(t, dir)
	p, err := w.Reserve(t.Context(), 8)
	must.OK(t, err)
	if err := w.End(); !errors.Is(err, errOutstanding) {
		t.Errorf("end with a place out: %v", err)
	}
	if err := w.core.cancel(p); err != nil {
		t.Error(err)
	}
	putEntry(t, w, 5, 8)
	if err := w.End(); err != nil {
		t.Error(err)
	}
	if _, err := w.Reserve(t.Context(), 8); !errors.Is(err, errEnded) {
		t.Errorf("reserve after the end: %v", err)
	}
	if id, err := readEntry(r); id != 5 || err != nil {
		t.Errorf("entry %d, %v", id, err)
	}
	for range 2 {
		if _, err := r.Next(t.Context()); !errors.Is(err, ErrEndOfRun) {
			t.Errorf("after the last: %v", err)
		}
	}
	for range 2 {
		if err := errors.Join(r.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	}
	for what, err := range map[string]error{
		"next": errorOf(r.Next(t.Context())), "ack": r.Ack(Entry{}), "reserve": errorOf(w.Reserve(t.Context(), 1)),
		"commit": w.Commit(p, 1, 1), "end": w.End(), "drain": w.drain(t.Context()),
		"detach": errorOf(w.DetachDead()),
	} {
		if !errors.Is(err, errClosed) {
			t.Errorf("%s after close: %v", what, err)
		}
	}
}

// attached is the number of readers attached, dead ones included.
func attached(w *Writer) (n int) {
	for i := range w.core.buffer.readers {
		if w.core.buffer.readers[i].state.Load() == readerActive {
			n++
		}
	}
	return n
}

// waitReaders waits until at least n readers are attached: those that are there before the first entry get every entry.
func waitReaders(ctx context.Context, w *Writer, n int) error {
	enough := func() (bool, error) { return attached(w) >= n, nil }
	return w.core.buffer.spaceBell.Await(ctx, 0, enough, func() error { return nil })
}

func errorOf[T any](_ T, err error) error { return err }

func TestWriterLeavesWithoutEnd(t *testing.T) {
	w, dir := newTestWriter(t, 1, Broadcast)
	r := newTestReader(t, dir)
	putEntry(t, w, 1, 8)
	must.OK(t, w.Close())
	if id, err := readEntry(r); id != 1 || err != nil {
		t.Errorf("what was committed: %d, %v", id, err)
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, ErrWriterGone) {
		t.Errorf("after it: %v", err)
	}
	if _, err := OpenReader("ringlet-1-buf", dir); !errors.Is(err, ErrNotFound) {
		t.Errorf("open after close: %v", err)
	}
}

func TestBufferRefusals(t *testing.T) {
	w, dir := newTestWriter(t, 1, Broadcast)
	for _, n := range []int{-1, w.core.buffer.maxEntry() + 1} {
		if _, err := w.Reserve(t.Context(), n); !errors.Is(err, ErrTooLarge) && !errors.Is(err, errBadEntry) {
			t.Errorf("reserve %d: %v", n, err)
		}
	}
	for range maxReaders {
		newTestReader(t, dir)
	}
	if _, err := OpenReader("ringlet-1-buf", dir); !errors.Is(err, errReadersFull) {
		t.Errorf("one reader too many: %v", err)
	}
	if _, err := CreateWriter("b", 0, Broadcast, dir); !errors.Is(err, errBadSize) {
		t.Errorf("no capacity: %v", err)
	}
	if _, err := CreateWriter("b", 1, 3, dir); !errors.Is(err, errBadMode) {
		t.Errorf("mode 3: %v", err)
	}
	if _, err := CreateWriter("ringlet-1-buf", 1, Sharing, dir); !errors.Is(err, ErrExists) {
		t.Errorf("name taken: %v", err)
	}
	s, err := Create("plain", 3*PageSize, dir)
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	var ce *corruptError
	if _, err := OpenReader("plain", dir); !errors.As(err, &ce) || !strings.Contains(err.Error(), "not a Ringlet buffer") {
		t.Errorf("a segment that is no buffer: %v", err)
	}
}

func TestBufferDoesNotAllocate(t *testing.T) {
	for _, mode := range []Mode{Broadcast, Sharing} {
		w, dir := newTestWriter(t, 4, mode)
		r := newTestReader(t, dir)
		ctx := t.Context()
		if n := testing.AllocsPerRun(1000, func() {
			p, err := w.Reserve(ctx, 1000)
			if err != nil || w.Commit(p, 1000, 1) != nil {
				t.Fatal(err)
			}
			e, err := r.Next(ctx)
			if err != nil || r.Ack(e) != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations per entry", mode, n)
		}
		_ = w.Close()
	}
}

func BenchmarkBufferSameThread(b *testing.B) {
	w, dir := newTestWriter(b, 256, Broadcast)
	r := newTestReader(b, dir)
	ctx, total := context.Background(), 0
	for b.Loop() {
		p, _ := w.Reserve(ctx, 1024)
		_ = w.Commit(p, 1024, 1)
		e, _ := r.Next(ctx)
		total += len(e.Data)
		_ = r.Ack(e)
	}
	if total != 1024*b.N {
		b.Fatal(total)
	}
}

// BenchmarkBufferProcesses writes 64 kB entries to a reader in another process, which touches a
// byte of each cache line.
func BenchmarkBufferProcesses(b *testing.B) {
	const size = 64 << 10
	dir := must.MemoryDir(b)
	w, err := CreateWriter("ringlet-1-buf", 4<<20, Broadcast, WithDir(dir))
	must.OK(b, err)
	defer func() { _ = w.Close() }()
	c := startChild(b, "reader", "DIR="+dir, "NAME=ringlet-1-buf", "STEP=64")
	c.line(b)
	src, ctx := make([]byte, size), context.Background()
	b.SetBytes(size)
	for b.Loop() {
		p, err := w.Reserve(ctx, size)
		must.OK(b, err)
		copy(p.Data, src)
		must.OK(b, w.Commit(p, size, 1))
	}
	must.OK(b, errors.Join(w.drain(ctx), w.End()))
	if got := c.line(b); !strings.HasPrefix(got, fmt.Sprintf("entries %d ", b.N)) {
		b.Fatal(got)
	}
}

// TestTryReserve: it says that there is no room, and waits for nobody.
func TestTryReserve(t *testing.T) {
	w, dir := newTestWriter(t, 1, Broadcast)
	r, err := OpenReader(w.Name(), dir)
	must.OK(t, err)
	n := 0
	for ; ; n++ {
		p, ok, err := w.TryReserve(1000)
		must.OK(t, err)
		if !ok {
			break
		}
		must.OK(t, w.Commit(p, 1000, 1))
	}
	if n != 4 {
		t.Errorf("%d entries are in a page", n)
	}
	e, err := r.Next(t.Context())
	must.OK(t, err)
	must.OK(t, r.Ack(e))
	if p, ok, err := w.TryReserve(1000); !ok || err != nil {
		t.Errorf("%v %v", ok, err)
	} else {
		must.OK(t, w.Commit(p, 1000, 1))
	}
	must.OK(t, r.Close())
	must.OK(t, w.Close())
	if _, _, err := w.TryReserve(1); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}
