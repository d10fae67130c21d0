package shmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

// ringMemory is memory of a new buffer of this process only, aligned as a mapping is.
func ringMemory(mode Mode, pages int) []byte {
	words := make([]uint64, (bufferHeader+pages*PageSize)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	initBuffer(mem, mode, 1, nil)
	return mem
}

func newCores(t must.TB, mode Mode, pages, readers int) (*writerCore, []*readerCore) {
	t.Helper()
	ring, err := openBuffer("test", ringMemory(mode, pages))
	must.OK(t, err)
	w := &writerCore{buffer: ring, outstanding: newOutstanding()}
	var rs []*readerCore
	for i := range readers {
		rs = append(rs, joined(t, ring, i))
	}
	return w, rs
}

func joined(t must.TB, ring *ringBuffer, i int) *readerCore {
	t.Helper()
	r := &readerCore{buffer: ring, outstanding: newOutstanding()}
	must.OK(t, r.join(i, uint32(i)))
	return r
}

// cancel leaves the place a pad.
func (w *writerCore) cancel(p Place) error {
	if !w.outstanding.contains(p.ticket, p.pos) {
		return errNotOutstanding
	}
	w.finish(p)
	return nil
}

func TestRingWrapsAndFills(t *testing.T) {
	w, rs := newCores(t, Broadcast, 1, 1)
	r := rs[0]
	if w.buffer.maxEntry() != PageSize/2-entryHeader {
		t.Errorf("max entry %d", w.buffer.maxEntry())
	}
	put := func(n int) bool {
		p, ok, err := w.reserve(n)
		must.OK(t, err)
		if ok {
			if len(p.Data) != n || uintptr(unsafe.Pointer(unsafe.SliceData(p.Data)))%16 != uintptr(
				unsafe.Pointer(&w.buffer.data[0]))%16 {
				t.Fatalf("place of %d bytes, misaligned", len(p.Data))
			}
			must.OK(t, w.commit(p, n, 3))
		}
		return ok
	}
	take := func(n int) {
		e, ok, err := r.next()
		if err != nil || !ok || len(e.Data) != n || e.Type != 3 {
			t.Fatalf("entry of %d: got %d bytes, %v, %v", n, len(e.Data), ok, err)
		}
		must.OK(t, r.ack(e))
	}
	const big = PageSize/2 - entryHeader
	if !put(1024) || !put(big) || put(1024) {
		t.Fatal("the buffer did not fill as it should")
	}
	take(1024)
	if put(1025) { // 1008 are left at the end, 1040 are free at the front, 1056 are needed
		t.Fatal("wrote over an entry that was not acknowledged")
	}
	take(big)
	if !put(1024) { // wraps
		t.Fatal("no room after everything was acknowledged")
	}
	take(1024)
	for range 1000 { // the largest entry always fits again
		if !put(big) {
			t.Fatal("the largest entry does not fit")
		}
		take(big)
	}
	if ok, err := w.isDrained(); !ok || err != nil {
		t.Errorf("drained: %v, %v", ok, err)
	}
}

func TestPlacesEndInAnyOrder(t *testing.T) {
	for _, mode := range []Mode{Broadcast, Sharing} {
		w, rs := newCores(t, mode, 1, 1)
		r := rs[0]
		var places []Place
		for i := range 40 { // more than outstanding begins with
			p, ok, err := w.reserve(20)
			if !ok || err != nil {
				t.Fatal(i, ok, err)
			}
			p.Data[0] = byte(i)
			places = append(places, p)
		}
		for i := 39; i > 0; i-- {
			if i%4 == 3 {
				must.OK(t, w.cancel(places[i]))
			} else if err := w.commit(places[i], 10, uint32(i)); err != nil {
				t.Fatal(err)
			}
			if _, ok, _ := r.next(); ok {
				t.Fatal("an entry overtook the first")
			}
		}
		for _, c := range []struct {
			n    int
			kind uint32
			want error
		}{{21, 0, errBadEntry}, {-1, 0, errBadEntry}, {1, padType, errBadEntry}, {20, 0, nil}, {20, 0, errNotOutstanding}} {
			if err := w.commit(places[0], c.n, c.kind); !errors.Is(err, c.want) {
				t.Errorf("commit %+v: %v", c, err)
			}
		}
		if err := w.cancel(places[1]); !errors.Is(err, errNotOutstanding) {
			t.Errorf("cancel after commit: %v", err)
		}
		var got []Entry
		for {
			e, ok, err := r.next()
			must.OK(t, err)
			if !ok {
				break
			}
			got = append(got, e)
		}
		if len(got) != 30 {
			t.Fatalf("%d entries, want 30", len(got))
		}
		slices.Reverse(got)
		for i, e := range got {
			if uint32(e.Data[0]) != e.Type {
				t.Errorf("entry of type %d has byte %d", e.Type, e.Data[0])
			}
			if ok, _ := w.isDrained(); ok {
				t.Errorf("drained with %d entries out", len(got)-i)
			}
			if err := r.ack(e); err != nil {
				t.Error(err)
			}
			if err := r.ack(e); !errors.Is(err, errNotOutstanding) {
				t.Errorf("acknowledged twice: %v", err)
			}
		}
		if ok, err := w.isDrained(); !ok || err != nil {
			t.Errorf("%v: drained %v, %v", mode, ok, err)
		}
	}
}

func TestLateAndLeavingReaders(t *testing.T) {
	w, rs := newCores(t, Broadcast, 1, 2)
	put := func() {
		t.Helper()
		p, ok, err := w.reserve(16)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		must.OK(t, w.commit(p, 16, 1))
	}
	put()
	put()
	e, _, _ := rs[0].next()
	must.OK(t, rs[0].ack(e))
	_, _, _ = rs[1].next()
	if n := w.buffer.detachReader(1); n != 1 || w.buffer.entriesLost.Load() != 1 {
		t.Errorf("left with %d unacknowledged, %d lost; want 1", n, w.buffer.entriesLost.Load())
	}
	if _, _, err := rs[1].next(); !errors.Is(err, errDetached) {
		t.Errorf("next after leaving: %v", err)
	}
	if _, err := w.isDrained(); err != nil || w.floor != 32 {
		t.Errorf("floor %d, %v; want 32, where reader 0 is", w.floor, err)
	}
	late := joined(t, w.buffer, 1)
	if late.pos != 32 {
		t.Errorf("the late one begins at %d, want 32", late.pos)
	}
	w.buffer.detachReader(1)
	e, _, _ = rs[0].next()
	must.OK(t, rs[0].ack(e))
	w.buffer.detachReader(0)
	if ok, err := w.isDrained(); !ok || err != nil { // what the last one acknowledged stays so
		t.Errorf("drained %v, %v", ok, err)
	}
}

func TestOpenRingRefusesNonsense(t *testing.T) {
	for off := 0; off < int(unsafe.Offsetof(bufferFormat{}.pid)); off += 4 {
		mem := ringMemory(Broadcast, 1)
		binary.LittleEndian.PutUint32(mem[off:], 0xDEADBEEF)
		var ce *corruptError
		if _, err := openBuffer("test", mem); !errors.As(err, &ce) {
			t.Errorf("nonsense at %#x: %v", off, err)
		}
	}
	if _, err := openBuffer("test", ringMemory(Sharing, 1)[:bufferHeader+8]); err == nil {
		t.Error("a ring without room was opened")
	}
}

// ringModel drives a writer and readers and knows what each reader must get.
type ringModel struct {
	w       *writerCore
	rs      []*readerCore
	places  []Place
	ids     []uint32        // of the places
	done    map[uint32]bool // committed
	order   []uint32        // ids by position, cancelled ones removed
	want    [][]uint32      // broadcast: by reader
	shared  map[uint32]int  // sharing: how often given
	held    [][]Entry       // by reader
	content map[uint32][]byte
}

func TestRingAgreesWithModel(t *testing.T) {
	for _, mode := range []Mode{Broadcast, Sharing} {
		t.Run(mode.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m := &ringModel{shared: map[uint32]int{}, content: map[uint32][]byte{}}
				m.w, m.rs = newCores(t, mode, 1, rapid.IntRange(1, 3).Draw(rt, "readers"))
				m.want, m.held = make([][]uint32, len(m.rs)), make([][]Entry, len(m.rs))
				for range 120 {
					switch rapid.IntRange(0, 4).Draw(rt, "do") {
					case 0:
						m.reserve(rt)
					case 1:
						m.finish(rt)
					case 2, 3:
						m.next(rt)
					case 4:
						m.ack(rt)
					}
				}
				m.drain(rt)
			})
		})
	}
}

func (m *ringModel) reserve(t *rapid.T) {
	n := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, m.w.buffer.maxEntry())).Draw(t, "n")
	p, ok, err := m.w.reserve(n)
	must.OK(t, err)
	if !ok {
		return
	}
	id := uint32(len(m.content) + 1)
	for i := range p.Data {
		p.Data[i] = byte(id) + byte(i)
	}
	m.places, m.ids = append(m.places, p), append(m.ids, id)
	m.content[id], m.order = p.Data, append(m.order, id)
}

func (m *ringModel) finish(t *rapid.T) {
	if len(m.places) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.places)-1).Draw(t, "place")
	p, id := m.places[i], m.ids[i]
	m.places, m.ids = slices.Delete(m.places, i, i+1), slices.Delete(m.ids, i, i+1)
	if rapid.IntRange(0, 3).Draw(t, "cancel") == 0 {
		m.order = slices.DeleteFunc(m.order, func(o uint32) bool { return o == id })
		must.OK(t, m.w.cancel(p))
		return
	}
	must.OK(t, m.w.commit(p, len(p.Data), id))
	if m.done == nil {
		m.done = map[uint32]bool{}
	}
	m.done[id] = true
}

func (m *ringModel) next(t *rapid.T) bool {
	k := rapid.IntRange(0, len(m.rs)-1).Draw(t, "reader")
	e, ok, err := m.rs[k].next()
	must.OK(t, err)
	if !ok {
		return false
	}
	if !m.done[e.Type] || len(e.Data) != len(m.content[e.Type]) {
		t.Fatalf("entry %d: committed %v, %d bytes", e.Type, m.done[e.Type], len(e.Data))
	}
	m.want[k] = append(m.want[k], e.Type)
	m.shared[e.Type]++
	m.held[k] = append(m.held[k], e)
	return true
}

func (m *ringModel) ack(t *rapid.T) {
	k := rapid.IntRange(0, len(m.rs)-1).Draw(t, "reader")
	if len(m.held[k]) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.held[k])-1).Draw(t, "entry")
	e := m.held[k][i]
	for j, b := range e.Data { // untouched for as long as it is held
		if b != byte(e.Type)+byte(j) {
			t.Fatalf("entry %d was overwritten at byte %d", e.Type, j)
		}
	}
	must.OK(t, m.rs[k].ack(e))
	m.held[k] = slices.Delete(m.held[k], i, i+1)
}

func (m *ringModel) drain(t *rapid.T) {
	for len(m.places) > 0 {
		m.finish(t)
	}
	for k, r := range m.rs {
		for {
			e, ok, err := r.next()
			must.OK(t, err)
			if !ok {
				break
			}
			m.want[k], m.held[k] = append(m.want[k], e.Type), append(m.held[k], e)
			m.shared[e.Type]++
		}
		for _, e := range m.held[k] {
			must.OK(t, r.ack(e))
		}
		if m.w.buffer.mode == Broadcast && !slices.Equal(m.want[k], m.order) {
			t.Fatalf("reader %d got %v, want %v", k, m.want[k], m.order)
		}
	}
	for _, id := range m.order {
		if m.w.buffer.mode == Sharing && m.shared[id] != 1 {
			t.Fatalf("entry %d was given %d times", id, m.shared[id])
		}
	}
	if ok, err := m.w.isDrained(); !ok || err != nil {
		t.Fatal(fmt.Sprint("not drained: ", ok, err))
	}
}
