package live

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFillGate holds that a buffer is nearly full from the high mark on, has room again from the low mark down, and
// that nothing changes between them.
func TestFillGate(t *testing.T) {
	var g FillGate
	m := BusyMarks{High: 80, Low: 50}
	for i, step := range []struct {
		used          uint64
		full, changed bool
	}{
		{79, false, false}, {80, true, true}, {100, true, false}, {51, true, false}, {50, false, true}, {79, false, false},
		{90, true, true}, {0, false, true},
	} {
		if full, changed := g.Update(m, step.used, 100); full != step.full || changed != step.changed {
			t.Errorf("step %d, %d of 100: full %v, changed %v", i, step.used, full, changed)
		}
	}
}

// TestFillGateWithAnyMarks: a full buffer is busy, an empty one is not, whatever the marks and the size.
func TestFillGateWithAnyMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		high := rapid.IntRange(1, 100).Draw(t, "high")
		m := BusyMarks{High: high, Low: rapid.IntRange(0, high-1).Draw(t, "low")}
		size := rapid.Uint64Range(1, 1<<40).Draw(t, "size")
		var g FillGate
		var before bool
		for _, used := range rapid.SliceOf(rapid.Uint64Range(0, size)).Draw(t, "used") {
			full, changed := g.Update(m, used, size)
			if changed != (full != before) {
				t.Fatalf("changed %v: %v after %v", changed, full, before)
			}
			if used == size && !full || used == 0 && full {
				t.Fatalf("%d of %d used: full %v", used, size, full)
			}
			before = full
		}
	})
}

// TestBusy holds, over random inputs, that the unit is busy exactly while a cause holds, that changes are told once and
// in turns, that the dead time of each cause is the time in which it held, and that a unit is free for good at the end.
func TestBusy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const sources = 3
		b := NewBusy(sources)
		var holds [busyCauses][sources]bool
		var now, dead time.Duration
		var by [busyCauses]time.Duration
		var last BusyState
		last.Source = -1
		over, times := false, uint64(0)
		n := rapid.IntRange(0, 60).Draw(t, "steps")
		for range n {
			pass := time.Duration(rapid.IntRange(0, 1000).Draw(t, "pass"))
			now += pass
			busy := false
			for c := range holds {
				if holds[c] != [sources]bool{} {
					by[c] += pass
					busy = true
				}
			}
			if busy {
				dead += pass
			}
			in := BusyInput{
				Cause:  BusyCause(rapid.IntRange(0, int(busyCauses)-1).Draw(t, "cause")),
				Source: rapid.IntRange(0, sources-1).Draw(t, "source"),
				Holds:  rapid.Bool().Draw(t, "holds"),
				Over:   rapid.IntRange(0, 30).Draw(t, "over") == 0,
				At:     now,
			}
			if in.Cause == BusyBuilders {
				in.Source = 0
			}
			s, changed := b.Step(in)
			if over = over || in.Over; over {
				holds = [busyCauses][sources]bool{}
			} else {
				holds[in.Cause][in.Source] = in.Holds
			}
			if changed != (s != last) {
				t.Fatalf("changed %v: %v after %v", changed, s, last)
			}
			for c := range holds {
				if s.Causes.Includes(BusyCause(c)) != (holds[c] != [sources]bool{}) {
					t.Fatalf("%v, but %v hold", s, holds)
				}
			}
			if s.IsBusy() && !last.IsBusy() {
				times++
			}
			last = s
		}
		want := BusyStats{times, dead, by[BusyBuilders], by[BusyIntake], by[BusyFrontend]}
		if got := b.Stats(now); got != want {
			t.Fatalf("%+v, and not %+v", got, want)
		}
	})
}
