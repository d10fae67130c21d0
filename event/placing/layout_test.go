package placing

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
)

func TestLayoutOfTwo(t *testing.T) {
	l, err := NewLayout(NewDivision(1, 3), []int{156, 160})
	if err != nil {
		t.Fatal(err)
	}
	// 8 bytes of fixed header, four u16 sources, four u32 offsets: 32. An entry for each source stands before its block.
	if l.header != 32 || l.EntriesSize(0) != 8 || l.EntriesSize(1) != 24 || l.Units() != 2 || l.Size() != 32+168+184 {
		t.Errorf("%+v", l)
	}
	if off, size := l.PartRange(0); off != 32 || size != 168 {
		t.Errorf("part 0 at %d, %d bytes", off, size)
	}
	if off, size := l.PartRange(1); off != 200 || size != 184 {
		t.Errorf("part 1 at %d, %d bytes", off, size)
	}
}

// TestLayout holds that the parts follow each other without overlap behind the header, aligned, each with room for its
// own.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := divisions(30).Draw(t, "division")
		blocks := rapid.SliceOfN(rapid.IntRange(0, 100_000), d.Units(), d.Units()).Draw(t, "blocks")
		l, err := NewLayout(d, blocks)
		if err != nil {
			t.Fatal(err)
		}
		at := l.header
		if at < event.MEPHeaderSize(d.Sources()) {
			t.Fatalf("a header of %d bytes", at)
		}
		for ru, block := range blocks {
			off, size := l.PartRange(ru)
			if off != at || off%partAlign != 0 || size < l.EntriesSize(ru)+block || size != PartSize(d.SourceCount(ru), block) {
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
		division Division
		blocks   []int
		says     string
	}{
		"nobody":      {NewDivision(), nil, "no readout unit"},
		"no sources":  {NewDivision(0), []int{4}, "has no source"},
		"sizes":       {NewDivision(1, 1), []int{4}, "sizes of 1 blocks"},
		"too many":    {EvenDivision(65536, 1), many, "65536 sources do not make a MEP"},
		"large block": {NewDivision(1), []int{1 << 32}, "4 GiB"},
		"negative":    {NewDivision(1), []int{-1}, "4 GiB"},
		"large MEP":   {EvenDivision(len(large), 1), large, "16 GiB"},
	} {
		if _, err := NewLayout(tc.division, tc.blocks); err == nil || !strings.Contains(err.Error(), tc.says) {
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
	if a, c := ReadEntry(b, 0), ReadEntry(b, 1); a != (Entry{156, 7}) || c != (Entry{1<<32 - 1, 1 << 31}) {
		t.Errorf("%v %v", a, c)
	}
}
