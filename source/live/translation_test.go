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
			if waiting := len(x.entries) - x.first - x.over; x.over > 2*waiting+sparedOver {
				t.Fatalf("%d entries were given up beside %d that wait", x.over, waiting)
			}
			if len(all) > 0 && next != all[len(all)-1].event+1 || safe > next {
				t.Fatalf("safe below %d, resume at %d behind %d fragments", safe, next, len(all))
			}
		}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
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

// TestTranslationJoinsWhatWasGivenUp: while the first fragment waits, those given up behind it take no memory.
func TestTranslationJoinsWhatWasGivenUp(t *testing.T) {
	var x Translation
	x.Add(0, 0, 0)
	for ref := uint64(1); ref < 10_000; ref++ {
		x.Add(ref, ref, ref)
		if ref > 1 { // the one before, as for a suspect
			if event, isNew, ok := x.GiveUp(ref - 1); event != ref-1 || !isNew || !ok {
				t.Fatalf("fragment %d: event %d, %v, %v", ref-1, event, isNew, ok)
			}
		}
	}
	if n := cap(x.entries); n > 1000 {
		t.Errorf("there is room for %d entries", n)
	}
	if next, safe := x.ResumeEvent(0), x.SafeEvent(0); next != 9999 || safe != 0 {
		t.Errorf("resume at %d, safe below %d", next, safe)
	}
	if safe := x.SafeEvent(9999); safe != 9999 {
		t.Errorf("safe below %d", safe)
	}
}

// TestTranslationDoesNotTrustThreeWildEvents that rise; where a front-end leaves out many each time, all but the last
// are right, and the last one when no other comes.
func TestTranslationDoesNotTrustThreeWildEvents(t *testing.T) {
	var x Translation
	for ref, event := range []uint64{0, 1, 1 << 50, 1 << 55, 1 << 60, 2} {
		x.Add(uint64(ref), event, uint64(ref))
	}
	if next, safe := x.ResumeEvent(6), x.SafeEvent(6); next != 3 || safe != 3 {
		t.Errorf("resume at %d, safe below %d", next, safe)
	}
	for ref := uint64(6); ref < 12; ref++ {
		x.Add(ref, ref*10_000, ref)
		x.SafeEvent(ref + 1)
	}
	if next, safe := x.ResumeEvent(12), x.SafeEvent(12); next != 100_001 || safe != 100_001 {
		t.Errorf("resume at %d, safe below %d", next, safe)
	}
	x.TrustLast()
	if safe := x.SafeEvent(12); safe != 110_001 {
		t.Errorf("safe below %d", safe)
	}
}

// TestNumberOfAnother holds that an event behind a gap, which has the number of an event that is here, is known to be
// another event once its own number is proven; the same event sent again is not.
func TestNumberOfAnother(t *testing.T) {
	begin := func() *Translation {
		var tr Translation
		for e := range uint64(10) {
			tr.Add(e, e, 100+e)
		}
		return &tr
	}
	repeat := func(tr *Translation, ref, event, number uint64) {
		t.Helper()
		tr.Add(ref, event, number)
		if _, isNew, ok := tr.GiveUp(ref); isNew || !ok {
			t.Fatalf("event %d: new %v, there %v", event, isNew, ok)
		}
		tr.NoteRepeat(ref)
	}
	tr := begin()
	repeat(tr, 10, 5000, 103)
	tr.SafeEvent(1)
	if other, is := tr.Add(11, 5001, 200); !is || other != 5000 {
		t.Errorf("behind a gap: %d, %v", other, is)
	}
	tr = begin()
	repeat(tr, 10, 5000, 103)
	if other, is := tr.TrustLast(); !is || other != 5000 {
		t.Errorf("at the end: %d, %v", other, is)
	}
	tr = begin()
	tr.Add(10, 5000, 110)
	repeat(tr, 11, 5000, 110)
	if other, is := tr.Add(12, 5001, 111); is {
		t.Errorf("sent again: %d", other)
	}
	tr = begin()
	repeat(tr, 10, 1<<40, 103) // a number that nothing proves
	if other, is := tr.Add(11, 10, 110); is {
		t.Errorf("a wrong number: %d", other)
	}
	tr = begin()
	for i := range uint64(3) {
		tr.Add(10+i, 10_000*(i+1), 200+i)
	}
	repeat(tr, 13, 40_000, 103)
	if other, is := tr.Add(14, 50_000, 204); !is || other != 40_000 {
		t.Errorf("where numbers leap: %d, %v", other, is)
	}
}
