package shmem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// newLossy is a reader that may lose, at place i of a ring.
func newLossy(t must.TB, ring *ringBuffer, i int) *readerCore {
	t.Helper()
	c := &readerCore{buffer: ring, outstanding: newOutstanding(), lossyReader: lossyReader{isLossy: true}}
	must.OK(t, c.join(i, 1))
	return c
}

// numbered puts an entry of n bytes that begins with its number, or says that there is no room.
func numbered(t must.TB, w *writerCore, id uint64, n int) bool {
	t.Helper()
	p, ok, err := w.reserve(n)
	must.OK(t, err)
	if ok {
		binary.LittleEndian.PutUint64(p.Data, id)
		must.OK(t, w.commit(p, n, 1))
	}
	return ok
}

// TestMayLoseAgreesWithCounting has a writer, a reader that may lose and one that may not take turns in any order: what
// the first one sees and what it is told of as overwritten is every entry once, in order, and the other loses nothing.
func TestMayLoseAgreesWithCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, others := newCores(t, Broadcast, 1, rapid.IntRange(0, 1).Draw(t, "others"))
		loser := newLossy(t, w.buffer, 5)
		var put, seen, overwritten, strict uint64
		take := func() bool {
			e, ok, err := loser.next()
			var lost *OverwrittenError
			switch {
			case errors.As(err, &lost):
				if lost.Entries == 0 {
					t.Fatal("none was overwritten, it says")
				}
				overwritten += lost.Entries
			case err != nil:
				t.Fatal(err)
			case ok:
				if id := binary.LittleEndian.Uint64(e.Data); id != seen+overwritten {
					t.Fatalf("entry %d, after %d seen and %d missed", id, seen, overwritten)
				}
				seen++
				must.OK(t, loser.ack(e))
			}
			return ok || err != nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				if numbered(t, w, put, rapid.IntRange(8, 1500).Draw(t, "bytes")) {
					put++
				} else if len(others) == 0 {
					t.Fatal("the writer waits for a reader that may lose")
				}
			},
			"take":   func(*rapid.T) { take() },
			"strict": func(t *rapid.T) { strict += takeStrict(t, others, strict) },
		})
		for len(others) > 0 && strict < put {
			strict += takeStrict(t, others, strict)
		}
		w.end(runEnded)
		for take() {
		}
		if err := loser.overwrittenAtEnd(); err != nil {
			overwritten = loser.overwrittenEntries
		}
		if seen+overwritten != put || w.buffer.entriesOverwritten.Load() != overwritten ||
			loser.words.overwritten.Load() != overwritten {
			t.Fatalf("%d put, %d seen, %d missed; the writer counts %d", put, seen, overwritten,
				w.buffer.entriesOverwritten.Load())
		}
		if w.buffer.detachReader(5); w.buffer.entriesLost.Load() != 0 {
			t.Fatal("a reader that may lose held something")
		}
	})
}

func takeStrict(t *rapid.T, others []*readerCore, want uint64) uint64 {
	if len(others) == 0 {
		return 0
	}
	e, ok, err := others[0].next()
	must.OK(t, err)
	if !ok {
		return 0
	}
	if id := binary.LittleEndian.Uint64(e.Data); id != want {
		t.Fatalf("who may not lose got entry %d, not %d", id, want)
	}
	must.OK(t, others[0].ack(e))
	return 1
}

// TestMayLoseKeepsUp holds that a reader that may lose and keeps up loses nothing, though one that may not lose has
// acknowledged everything long before, and that the writer waits for the latter alone.
func TestMayLoseKeepsUp(t *testing.T) {
	w, others := newCores(t, Broadcast, 1, 1)
	loser := newLossy(t, w.buffer, 5)
	for id := range uint64(1000) {
		if !numbered(t, w, id, 500) {
			t.Fatalf("no room for entry %d", id)
		}
		e, ok, err := others[0].next()
		if err != nil || !ok {
			t.Fatalf("entry %d is not there: %v", id, err)
		}
		must.OK(t, others[0].ack(e))
		if id < 3 {
			continue // it is three entries behind
		}
		if e, ok, err = loser.next(); !ok || err != nil || binary.LittleEndian.Uint64(e.Data) != id-3 {
			t.Fatalf("entry %d: %v, %v", id-3, ok, err)
		}
		must.OK(t, loser.ack(e))
	}
	for id := uint64(1000); numbered(t, w, id, 500); id++ {
		if id > 1100 {
			t.Fatal("the writer does not wait for a reader that may not lose")
		}
	}
	if done, err := w.isDrained(); done || err != nil {
		t.Error(done, err)
	}
}

// TestMayLoseOfSharing holds that a sharing reader cannot be one that may lose.
func TestMayLoseOfSharing(t *testing.T) {
	w, dir := newTestWriter(t, 1, Sharing)
	if _, err := OpenReader(w.Name(), dir, WithLossyReader()); !errors.Is(err, errLossySharing) {
		t.Error(err)
	}
}

// TestMayLoseTearsNothing has a writer overwrite a reader that may lose all the time, over two mappings: whatever the
// reader takes is an entry as it was written, copied or lent.
func TestMayLoseTearsNothing(t *testing.T) {
	const entries = 30000
	dir := WithDir(must.MemoryDir(t))
	annex, err := Create("ringlet-1-annex", 64<<10, dir)
	must.OK(t, err)
	defer func() { _ = annex.Close() }()
	w, err := CreateWriter("ringlet-1-buf", 4*PageSize, Broadcast, dir, WithAnnex(annex))
	must.OK(t, err)
	defer func() { _ = w.Close() }()
	r, err := OpenReader("ringlet-1-buf", dir, WithLossyReader())
	must.OK(t, err)
	defer func() { _ = r.Close() }()
	var seen, overwritten uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			e, err := r.Next(context.Background())
			var lost *OverwrittenError
			switch {
			case errors.As(err, &lost):
				overwritten += lost.Entries
				continue
			case errors.Is(err, ErrEndOfRun):
				return
			case err != nil:
				t.Error(err)
				return
			}
			if n := len(e.Data); n < 8 || !bytes.Equal(e.Data[8:], bytes.Repeat([]byte{byte(e.Type)}, n-8)) ||
				binary.LittleEndian.Uint64(e.Data) != uint64(e.Type) || uint64(e.Type) != seen+overwritten {
				t.Errorf("entry %d of %d bytes after %d seen and %d missed is torn", e.Type, n, seen, overwritten)
				return
			}
			seen++
			if err := r.Ack(e); err != nil {
				t.Error(err)
			}
		}
	})
	back := []int{0, 16 << 10, 32 << 10, 48 << 10}
	for id := range uint32(entries) {
		fill := func(data []byte) {
			binary.LittleEndian.PutUint64(data, uint64(id))
			copy(data[8:], bytes.Repeat([]byte{byte(id)}, len(data)-8))
		}
		if id%3 != 0 {
			p, err := w.Reserve(t.Context(), 8+int(id%4000))
			must.OK(t, err)
			fill(p.Data)
			must.OK(t, w.Commit(p, len(p.Data), id))
			continue
		}
		if len(back) == 0 {
			back, err = w.AwaitReturned(t.Context(), back)
			must.OK(t, err)
		}
		p, err := w.Reserve(t.Context(), LentEntrySize)
		must.OK(t, err)
		n := 8 + int(id%16000)
		fill(annex.Bytes()[back[0]:][:n])
		must.OK(t, w.Lend(p, back[0], n, id))
		back = back[1:]
	}
	must.OK(t, w.End())
	patiently.Wait(t, wg.Wait)
	if seen+overwritten != entries || w.Overwritten() != overwritten || seen == 0 {
		t.Errorf("%d seen, %d missed of %d; the writer counts %d", seen, overwritten, entries, w.Overwritten())
	}
}
