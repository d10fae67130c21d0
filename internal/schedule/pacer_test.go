package schedule

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHoldsTheRate: whoever asks as often as he likes has as many things as the rate gives, but for one; who was away
// catches up to the backlog, and no further: what is missing is in what was lost.
func TestHoldsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1, 1e7).Draw(t, "rate")
		backlog := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "backlog"))
		p, start, now, n, lost := NewPacer(rate, backlog), time.Unix(1, 0), time.Unix(1, 0), 0, time.Duration(0)
		for range 20 {
			for range 50 {
				wait, gone := p.NextWait(now)
				lost += gone
				if wait < 0 || gone < 0 || wait > 0 && gone > 0 {
					t.Fatalf("wait %v, lost %v", wait, gone)
				}
				if wait > 0 {
					break
				}
				p.Advance(1)
				n++
			}
			most := 1 + (now.Sub(start)-lost).Seconds()*rate
			if float64(n) > most+1e-6+1e-9*rate { // times are whole nanoseconds
				t.Fatalf("%d things at %g/s after %v of which %v are lost: %g at most", n, rate, now.Sub(start), lost, most)
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "away")))
		}
	})
}

// TestGivesUpOnce: time beyond the backlog is lost once, and the backlog is caught up.
func TestGivesUpOnce(t *testing.T) {
	p, start := NewPacer(10, 300*time.Millisecond), time.Unix(1, 0) // one each 100 ms, of which three may be late
	if wait, lost := p.NextWait(start); wait != 0 || lost != 0 {
		t.Fatal(wait, lost)
	}
	p.Advance(1)
	if wait, _ := p.NextWait(start.Add(60 * time.Millisecond)); wait != 40*time.Millisecond {
		t.Fatal(wait)
	}
	later := start.Add(2 * time.Second)
	if wait, lost := p.NextWait(later); wait != 0 || lost != 1600*time.Millisecond {
		t.Fatal(wait, lost)
	}
	for k := range 4 {
		if wait, lost := p.NextWait(later); wait != 0 || lost != 0 {
			t.Fatalf("%d of the backlog: wait %v, lost %v", k, wait, lost)
		}
		p.Advance(1)
	}
	if wait, _ := p.NextWait(later); wait != 100*time.Millisecond {
		t.Fatal(wait)
	}
}

// TestLongTimes: what no clock can hold is a long wait, and no negative one.
func TestLongTimes(t *testing.T) {
	if d := DurationOf(math.MaxUint64, 1e-300); d <= 0 {
		t.Error(d)
	}
	p := NewPacer(1e-300, maxSchedule)
	p.Advance(1)
	p.NextWait(time.Unix(1, 0))
	p.Advance(1)
	if wait, lost := p.NextWait(time.Unix(2, 0)); wait < 0 || lost != 0 {
		t.Error(wait, lost)
	}
}

// TestAllocatesNothing: it is asked once per block or event.
func TestAllocatesNothing(t *testing.T) {
	p, now := NewPacer(1e6, time.Millisecond), time.Unix(1, 0)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Microsecond)
		p.NextWait(now)
		p.Advance(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
