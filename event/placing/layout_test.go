package placing

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
)

func TestLayoutOfTwo(t *testing.T) {
	l, err := NewLayout(1, []int{156, 160})
	if err != nil {
		t.Fatal(err)
	}
	// 8 bytes of fixed header, two u16 sources, two u32 offsets: 20, rounded up to 24.
	if l.Header() != 24 || l.Entries() != 8 || l.RUs() != 2 || l.Streams() != 1 || l.Size() != 24+168+168 {
		t.Errorf("%+v", l)
	}
	if off, size := l.Part(0); off != 24 || size != 168 {
		t.Errorf("part 0 at %d, %d bytes", off, size)
	}
	if off, size := l.Part(1); off != 192 || size != 168 {
		t.Errorf("part 1 at %d, %d bytes", off, size)
	}
}

// TestLayout holds that the parts follow each other without overlap behind the header, aligned, each with room for its
// own.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		streams := rapid.IntRange(1, 50).Draw(t, "streams")
		blocks := rapid.SliceOfN(rapid.IntRange(0, 100_000), 1, 30).Draw(t, "blocks")
		l, err := NewLayout(streams, blocks)
		if err != nil {
			t.Fatal(err)
		}
		at := l.Header()
		if at < event.MEPHeaderSize(streams*len(blocks)) {
			t.Fatalf("a header of %d bytes", at)
		}
		for ru, block := range blocks {
			off, size := l.Part(ru)
			if off != at || off%partAlign != 0 || size < l.Entries()+block || size != PartSize(streams, block) {
				t.Fatalf("part %d at %d, size %d", ru, off, size)
			}
			at += size
		}
		if at != l.Size() {
			t.Fatalf("size %d, the parts end at %d", l.Size(), at)
		}
	})
}

func TestLayoutRefuses(t *testing.T) {
	many := make([]int, 65536)
	large := []int{1<<32 - 100, 1<<32 - 100, 1<<32 - 100, 1<<32 - 100, 1<<32 - 100}
	for name, tc := range map[string]struct {
		streams int
		blocks  []int
		says    string
	}{
		"nobody":      {1, nil, "0 readout units"},
		"no streams":  {0, []int{4}, "of 0 streams"},
		"too many":    {1, many, "65536 readout units"},
		"large block": {1, []int{1 << 32}, "4 GiB"},
		"negative":    {1, []int{-1}, "4 GiB"},
		"large MEP":   {1, large, "16 GiB"},
	} {
		if _, err := NewLayout(tc.streams, tc.blocks); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestImmediate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mep := rapid.Uint64().Draw(t, "mep")
		attempt := rapid.Uint8().Draw(t, "attempt")
		slot := rapid.Uint32Range(0, 1<<24-1).Draw(t, "slot")
		m, a, s := ParseImmediate(Immediate(mep, attempt, slot))
		if m != uint32(mep) || a != attempt || s != slot {
			t.Fatalf("%d %d %d", m, a, s)
		}
	})
}

func TestEntries(t *testing.T) {
	b := make([]byte, 2*EntrySize)
	PutEntry(b, 0, Entry{Size: 156, CRC: 7})
	PutEntry(b, 1, Entry{Size: 1<<32 - 1, CRC: 1 << 31})
	if a, c := EntryOf(b, 0), EntryOf(b, 1); a != (Entry{156, 7}) || c != (Entry{1<<32 - 1, 1 << 31}) {
		t.Errorf("%v %v", a, c)
	}
}
