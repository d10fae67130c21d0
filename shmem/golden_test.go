package shmem

import (
	"bytes"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"ringlet/testkit/must"
)

// golden reads a hand-made image: lines of an offset and bytes, in hex.
func golden(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	var image []byte
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		off, err := strconv.ParseInt(f[0], 16, 32)
		must.OK(t, err)
		b, err := hex.DecodeString(strings.Join(f[1:], ""))
		must.OK(t, err)
		if need := int(off) + len(b); need > len(image) {
			image = append(image, make([]byte, need-len(image))...)
		}
		copy(image[off:], b)
	}
	return image
}

func wantImage(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d bytes, the golden image has %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("byte %#x is %#x, the golden image has %#x", i, got[i], want[i])
		}
	}
}

func TestBufferGolden(t *testing.T) {
	annex := &Segment{name: "ringlet-1-annex", size: 64, mem: []byte("01234abc" + strings.Repeat("-", 56))}
	mem := ringMemory(Broadcast, 1)
	initBuffer(mem, Broadcast, 1, annex)
	ring, err := openBuffer("test", mem)
	must.OK(t, err)
	ring.annex = annex.mem
	w := &writerCore{buffer: ring, outstanding: newOutstanding()}
	for _, e := range []struct {
		data   []byte
		kind   uint32
		cancel bool
	}{{data: []byte("abc"), kind: 7}, {data: make([]byte, 5), cancel: true},
		{data: bytes.Repeat([]byte{0x11}, 20), kind: 8}} {
		p, _, err := w.reserve(len(e.data))
		must.OK(t, err)
		copy(p.Data, e.data)
		if e.cancel {
			err = w.cancel(p)
		} else {
			err = w.commit(p, len(e.data), e.kind)
		}
		must.OK(t, err)
	}
	p, _, err := w.reserve(LentEntrySize)
	must.OK(t, err)
	must.OK(t, w.lend(p, 5, 3, 9))
	w.end(runEnded)
	want := golden(t, "testdata/buffer.golden")
	wantImage(t, mem, want)

	// And the other way: a reader of the hand-made image.
	mem = ringMemory(Broadcast, 1)
	copy(mem, want)
	ring, err = openBuffer("golden", mem)
	must.OK(t, err)
	if name := ring.annexName(); name != annex.name {
		t.Errorf("the annex is called %q", name)
	}
	ring.annex = annex.mem
	r := joined(t, ring, 0)
	for _, c := range []struct {
		kind uint32
		n    int
	}{{7, 3}, {8, 20}, {9, 3}} {
		if e, ok, err := r.next(); !ok || err != nil || e.Type != c.kind || len(e.Data) != c.n {
			t.Errorf("type %d of %d bytes, %v, %v; want %+v", e.Type, len(e.Data), ok, err, c)
		}
	}
}
