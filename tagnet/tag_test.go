package tagnet

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

func drawTag(t *rapid.T) core.Tag {
	tag := core.Tag{
		TokenPlace: rapid.Uint64().Draw(t, "place"),
		MEP:        rapid.Uint64().Draw(t, "mep"),
		Slot:       rapid.Uint32Range(0, core.MaxSlots-1).Draw(t, "slot"),
		Attempt:    rapid.Uint8().Draw(t, "attempt"),
		Loop:       rapid.Uint8().Draw(t, "loop"),
	}
	for _, ru := range rapid.SliceOfN(rapid.IntRange(0, core.MaxTagRingRUs-1), 0, 5).Draw(t, "served") {
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
			if words = tags[i].AppendWords(words); len(words)-before > core.MaxTagWords {
				t.Fatalf("%d words", len(words)-before)
			}
		}
		if back, ok := decodeTags(words); !ok || !slices.Equal(back, tags) {
			t.Fatalf("%v", back)
		}
	})
}

// FuzzTags reads words from the network as both ends do.
func FuzzTags(f *testing.F) {
	tag := core.Tag{
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
		tokens := Tokens{Batch: core.Batch{PlacesPerCycle: 3}}
		if what := tokens.decodeWords(&tagnetv1.Notices{Withdrawn: words}, 0); what == "" {
			var again []uint64
			for _, w := range tokens.Withdrawals {
				if w.BU >= 3 {
					t.Errorf("builder unit %d is withdrawn", w.BU)
				}
			}
			again = appendWithdrawals(again, tokens.Withdrawals)
			if !slices.Equal(again, words) {
				t.Errorf("%x is encoded again as %x", words, again)
			}
		}
	})
}
