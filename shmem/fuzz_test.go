package shmem

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"ringlet/testkit/must"
)

// patch overwrites words of a segment as another process could: records of a 16-bit offset, in
// units of 4 bytes, and a 32-bit value.
func patch(mem, patches []byte) {
	for ; len(patches) >= 6; patches = patches[6:] {
		off := int(binary.LittleEndian.Uint16(patches)) * 4 % len(mem)
		copy(mem[off:], patches[2:6])
	}
}

func patchOf(off int, value uint32) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(off/4))
	return binary.LittleEndian.AppendUint32(b, value)
}

// FuzzReader gives a reader and a writer a ring in which another process wrote anything: they
// answer with entries inside the buffer or with a typed error, and come to an end.
func FuzzReader(f *testing.F) {
	var words bufferWords
	head, next := int(unsafe.Offsetof(words.head)), int(unsafe.Offsetof(words.claimedUpTo))
	tail := int(unsafe.Offsetof(words.readers) + unsafe.Offsetof(words.readers[0].tail))
	third := tail + 3*int(unsafe.Sizeof(words.readers[0]))
	f.Add(true, patchOf(head, 48), []byte{})
	f.Add(false, patchOf(next, 16), patchOf(next, 8))
	f.Add(true, patchOf(bufferHeader+8, 1<<31), []byte{})
	f.Add(true, []byte{}, patchOf(bufferHeader, 1<<31))
	f.Add(false, patchOf(tail, 5), patchOf(third, 1<<30))
	lent := append(patchOf(bufferHeader, LentEntrySize), patchOf(bufferHeader+8,
		uint32(strideOf(LentEntrySize))|lentBit)...)
	f.Add(true, append(lent, patchOf(bufferHeader+16, 1<<20)...), []byte{})
	f.Add(true, append(lent, patchOf(bufferHeader+24, 1<<20)...), []byte{})
	f.Fuzz(func(t *testing.T, broadcast bool, before, between []byte) {
		mode := Sharing
		if broadcast {
			mode = Broadcast
		}
		mem := ringMemory(mode, 1)
		clean, err := openBuffer("fuzz", mem)
		must.OK(t, err)
		w := &writerCore{buffer: clean, outstanding: newOutstanding()}
		for i := range 5 {
			fuzzPut(t, w, 40*i)
		}
		patch(mem, before)
		ring, err := openBuffer("fuzz", mem)
		if err != nil {
			wantTyped(t, err)
			return
		}
		ring.annex = make([]byte, 64)
		r := &readerCore{buffer: ring, outstanding: newOutstanding()}
		if err := r.join(3, 1); err != nil {
			wantTyped(t, err)
			return
		}
		loser := &readerCore{buffer: ring, outstanding: newOutstanding(), lossyReader: lossyReader{isLossy: broadcast}}
		if err := loser.join(4, 1); err != nil {
			wantTyped(t, err)
			return
		}
		for range 3 {
			fuzzTake(t, r, 2)
			fuzzTake(t, loser, 2)
			patch(mem, between)
			for range 10 {
				if !fuzzPut(t, w, 1000) {
					break
				}
			}
		}
		fuzzTake(t, r, 2*PageSize)
		fuzzTake(t, loser, 2*PageSize)
		_, err = w.isDrained()
		wantTyped(t, err)
		ring.detachReader(4)
		ring.detachReader(3)
	})
}

func fuzzPut(t *testing.T, w *writerCore, n int) bool {
	p, ok, err := w.reserve(n)
	wantTyped(t, err)
	if ok {
		must.OK(t, w.commit(p, n, 1))
	}
	return ok
}

func fuzzTake(t *testing.T, r *readerCore, most int) {
	for range most {
		e, ok, err := r.next()
		wantTyped(t, err)
		if !ok {
			return
		}
		if len(e.Data) > len(r.buffer.data)-entryHeader {
			t.Fatalf("entry of %d bytes", len(e.Data))
		}
		must.OK(t, r.ack(e))
	}
}

func wantTyped(t *testing.T, err error) {
	t.Helper()
	var ce *corruptError
	var lost *OverwrittenError
	// errLossySharing: what was written over the mode made a buffer of Sharing of the one of Broadcast.
	if err != nil && !errors.As(err, &ce) && !errors.As(err, &lost) && !errors.Is(err, errDetached) &&
		!errors.Is(err, errLossySharing) {
		t.Fatalf("untyped error: %v", err)
	}
}
