package live

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTranslation: whatever becomes of fragments, in any order, the front-end is told of none that has no outcome, and
// in the end of all.
func TestTranslation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Translation
		type sent struct{ event, number uint64 }
		var all []sent
		over := map[int]bool{}
		event, number, below := uint64(rapid.IntRange(0, 50).Draw(t, "begin")), uint64(7), uint64(0)
		check := func() {
			next := x.ResumeEvent(number)
			safe := x.SafeEvent(below)
			for i, s := range all {
				if s.event < safe && s.number >= below && !over[i] {
					t.Fatalf("event %d is safe below %d, and its number %d is not below %d", s.event, safe, s.number, below)
				}
			}
			if len(all) > 0 && next != all[len(all)-1].event+1 || safe > next {
				t.Fatalf("safe below %d, resume at %d behind %d fragments", safe, next, len(all))
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				x.Add(uint64(len(all)), event, number)
				all = append(all, sent{event, number})
				event += uint64(rapid.IntRange(1, 20).Draw(t, "leave out"))
				number += uint64(rapid.IntRange(1, 5000).Draw(t, "number"))
			case 2:
				if len(all) > 0 {
					i := rapid.IntRange(0, len(all)-1).Draw(t, "given up")
					got, _, ok := x.GiveUp(uint64(i))
					if ok && got != all[i].event {
						t.Fatalf("event %d was given up, not %d", got, all[i].event)
					}
					if !ok && all[i].number >= below && !over[i] {
						t.Fatalf("fragment %d is not known", i)
					}
					over[i] = true
				}
			default:
				below = rapid.Uint64Range(below, number).Draw(t, "below")
			}
			check()
		}
		below = number
		if check(); len(all) > 0 && x.SafeEvent(below) != all[len(all)-1].event+1 {
			t.Fatalf("all is safe, and the front-end is told %d", x.SafeEvent(below))
		}
	})
}

// TestTranslationDoesNotTrustAWildEvent: it moves nothing, unless the next one proves it.
func TestTranslationDoesNotTrustAWildEvent(t *testing.T) {
	var x Translation
	for ref, event := range []uint64{0, 1, 1 << 60, 2, 3} {
		x.Add(uint64(ref), event, uint64(ref))
	}
	if next, safe := x.ResumeEvent(5), x.SafeEvent(5); next != 4 || safe != 4 {
		t.Errorf("resume at %d, safe below %d", next, safe)
	}
	for ref, event := range []uint64{50_000, 50_001, 90_000} {
		x.Add(5+uint64(ref), event, 5+uint64(ref))
	}
	if next, safe := x.ResumeEvent(8), x.SafeEvent(7); next != 50_002 || safe != 50_002 {
		t.Errorf("resume at %d, safe below %d", next, safe)
	}
	x.TrustLast()
	if safe := x.SafeEvent(8); safe != 90_001 {
		t.Errorf("safe below %d", safe)
	}
}
