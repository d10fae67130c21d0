package tagnet

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

func drawTag(t *rapid.T) Tag {
	tag := Tag{
		TokenPlace: rapid.Uint64().Draw(t, "place"),
		MEP:        rapid.Uint64().Draw(t, "mep"),
		Slot:       rapid.Uint32Range(0, slotMask).Draw(t, "slot"),
		Attempt:    rapid.Uint8().Draw(t, "attempt"),
		Loop:       rapid.Uint8().Draw(t, "loop"),
	}
	for _, ru := range rapid.SliceOfN(rapid.IntRange(0, MaxTagRingRUs-1), 0, 5).Draw(t, "served") {
		tag.Served.Add(ru)
	}
	return tag
}

// TestTagWords holds that tags come back from their words, one behind the other.
func TestTagWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var words []uint64
		tags := rapid.SliceOfN(rapid.Custom(drawTag), 0, 4).Draw(t, "tags")
		for i := range tags {
			before := len(words)
			if words = tags[i].AppendWords(words); len(words)-before > MaxTagWords {
				t.Fatalf("%d words", len(words)-before)
			}
		}
		if back, ok := decodeTags(words); !ok || !slices.Equal(back, tags) {
			t.Fatalf("%v", back)
		}
	})
}

// TestServed holds the bit field against a set.
func TestServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s ServedRUs
		set := map[int]bool{}
		for _, ru := range rapid.SliceOf(rapid.IntRange(0, MaxTagRingRUs-1)).Draw(t, "served") {
			before := s
			s.Add(ru)
			set[ru] = true
			if !s.containsAll(&before) || s != before && before.containsAll(&s) {
				t.Fatal("keeps")
			}
		}
		rus, most := rapid.IntRange(1, MaxTagRingRUs).Draw(t, "rus"), 0
		for ru := range MaxTagRingRUs {
			if s.Contains(ru) != set[ru] {
				t.Fatalf("readout unit %d", ru)
			}
			if set[ru] {
				most = ru + 1
			}
		}
		if s.Len() != len(set) || s.allBelow(rus) != (most <= rus) {
			t.Fatalf("%d, %v within %d", s.Len(), s.allBelow(rus), rus)
		}
	})
}

// FuzzTags reads words from the network as both ends do.
func FuzzTags(f *testing.F) {
	tag := Tag{
		TokenPlace: 9,
		MEP:        0x42,
		Slot:       5,
		Attempt:    1,
		Loop:       2,
	}
	tag.Served.Add(0)
	tag.Served.Add(70)
	var seed []byte
	for _, w := range tag.AppendWords(nil) {
		seed = binary.LittleEndian.AppendUint64(seed, w)
	}
	f.Add(seed)
	f.Add(seed[:16])
	f.Fuzz(func(t *testing.T, b []byte) {
		var words []uint64
		for ; len(b) >= 8; b = b[8:] {
			words = append(words, binary.LittleEndian.Uint64(b))
		}
		if tags, ok := decodeTags(words); ok {
			var again []uint64
			for i := range tags {
				again = tags[i].AppendWords(again)
			}
			if !slices.Equal(again, words) {
				t.Errorf("%x is encoded again as %x", words, again)
			}
		}
		tokens := Tokens{Batch: Batch{PlacesPerCycle: 3}}
		if what := tokens.decodeTagRing(&tagnetv1.TokenBatch{Withdrawn: words}); what == "" {
			var again []uint64
			for _, w := range tokens.Withdrawals {
				if w.BU >= 3 {
					t.Errorf("builder unit %d is withdrawn", w.BU)
				}
				again = w.appendWords(again)
			}
			if !slices.Equal(again, words) {
				t.Errorf("%x is encoded again as %x", words, again)
			}
		}
	})
}
