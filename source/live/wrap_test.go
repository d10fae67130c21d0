package live

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestUnwrap: the number has the counter's bits, and lies from a quarter of a lap before the expected number to three
// quarters behind it.
func TestUnwrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint8Range(1, 63).Draw(t, "bits")
		lap := uint64(1) << bits
		about := rapid.Uint64Range(0, 1<<63-1).Draw(t, "about")
		raw := rapid.Uint64Range(0, lap-1).Draw(t, "raw")
		e, from := unwrap(raw, bits, about), about-min(about, lap/4)
		if e&(lap-1) != raw || e < from || e-from >= lap {
			t.Fatalf("%d of %d bits about %d became %d", raw, bits, about, e)
		}
	})
}

// wrapRun is a source with a counter, and one with numbers of 64 bits beside it; each event is cut when it is complete.
type wrapRun struct {
	m    *Matcher
	bits uint8
	now  time.Duration
}

func newWrapRun(bits uint8, unordered bool) *wrapRun {
	r := &wrapRun{m: NewMatcher(rules(), []string{"counter", "clock"}, []bool{unordered, unordered}), bits: bits}
	r.m.SetWrap(0, bits)
	return r
}

// send offers the fragments of an event, of each source that is named.
func (r *wrapRun) send(e uint64, sources ...int) (last error) {
	r.now += time.Millisecond
	for _, s := range sources {
		raw := e
		if s == 0 {
			raw &= 1<<r.bits - 1
		}
		if _, err := r.m.Offer(s, FragmentRef{Event: raw, Size: 4}, r.now); err != nil {
			last = err
		}
	}
	r.cut()
	return last
}

// cut cuts and takes what is due.
func (r *wrapRun) cut() {
	reach, _ := r.m.Step(r.now)
	for r.m.cuts.end < max(reach.CompleteBelow, reach.OverdueBelow) {
		first := max(r.m.cuts.end, reach.FirstUncut)
		n := min(reach.CompleteBelow-first, uint64(r.m.rules.Packing))
		if n == 0 {
			return
		}
		r.m.AddCut(Cut{first, uint32(n)}, r.now)
		r.m.Step(r.now)
		if _, ready, err := r.m.TakeCut(make([]FragmentRef, 2*n)); !ready || err != nil {
			return
		}
		r.m.FinishCut(r.now)
		reach, _ = r.m.Step(r.now)
	}
}

// TestACounterIsUnwrapped over many laps: every event is whole.
func TestACounterIsUnwrapped(t *testing.T) {
	for _, c := range []struct {
		bits      uint8
		events    uint64
		unordered bool
	}{{15, 200_000, false}, {8, 5000, false}, {1, 100, false}, {15, 100_000, true}, {63, 100, false}} {
		r := newWrapRun(c.bits, c.unordered)
		for e := range c.events {
			if err := r.send(e, 0, 1); err != nil {
				t.Fatalf("%d bits, event %d: %v", c.bits, e, err)
			}
		}
		a, b := r.m.Counts(0), r.m.Counts(1)
		if a.Used+a.WaitingFragments != c.events || b.Used+b.WaitingFragments != c.events || a.Missing+b.Missing > 0 ||
			a.Laps != (c.events-1)>>c.bits || a.GuessedLaps > 0 || a.NewestEvent != c.events-1 {
			t.Errorf("%d bits: %+v beside %+v", c.bits, a, b)
		}
	}
}

// TestACounterMayLoseThreeQuartersOfALap: what it lost is known from its numbers alone.
func TestACounterMayLoseThreeQuartersOfALap(t *testing.T) {
	for _, lost := range []uint64{1, 60, 180, 190} {
		r := newWrapRun(8, false)
		for e := range uint64(300) {
			_ = r.send(e, 0, 1)
		}
		for e := 300 + lost; e < 340+lost; e++ {
			_ = r.send(e, 0, 1)
		}
		a, b := r.m.Counts(0), r.m.Counts(1)
		if a.NewestEvent != 339+lost || b.NewestEvent != 339+lost || a.Gaps != 1 || a.Jumps+a.Backwards > 0 || a.Laps == 0 {
			t.Errorf("%d lost: %+v beside %+v", lost, a, b)
		}
	}
}

// TestAWrongNumberOfACounterMovesNothing, wherever in a lap it lies.
func TestAWrongNumberOfACounterMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newWrapRun(rapid.SampledFrom([]uint8{8, 12, 15}).Draw(t, "bits"), false)
		lap := uint64(1) << r.bits
		begin := rapid.Uint64Range(0, lap-1).Draw(t, "begin")
		wrong := uint64(0)
		for e := begin; e < begin+3*lap; e += 1 + lap/64 {
			if rapid.IntRange(0, 20).Draw(t, "garbage") == 0 {
				_, _ = r.m.Offer(0, FragmentRef{Event: rapid.Uint64Range(0, lap-1).Draw(t, "raw"), Size: 4}, r.now)
				wrong++
			}
			for i := range lap/64 + 1 {
				_ = r.send(e+i, 0, 1)
			}
		}
		if c := r.m.Counts(1); c.Missing > wrong {
			t.Fatalf("%d wrong numbers: %+v", wrong, c)
		}
		if c := r.m.Counts(0); c.Missing > wrong || c.Used == 0 {
			t.Fatalf("%d wrong numbers cost %d fragments: %+v", wrong, c.Missing, c)
		}
	})
}

// TestACounterThatWasSilentFindsTheRun again, however many laps the run went on; that this is a guess is reported.
func TestACounterThatWasSilentFindsTheRun(t *testing.T) {
	for _, laps := range []uint64{1, 3, 30} {
		r := newWrapRun(8, false)
		e := uint64(0)
		for ; e < 1000; e++ {
			_ = r.send(e, 0, 1)
		}
		for ; e < 1000+laps*256+10; e++ {
			_ = r.send(e, 1)
			r.now += 100 * time.Millisecond // its events are overdue
		}
		var reported error
		back := e
		for ; e < back+2000; e++ {
			reported = errors.Join(reported, r.send(e, 0, 1))
		}
		c := r.m.Counts(0)
		if c.NewestEvent != e-1 || c.GuessedLaps != 1 || c.Missing > back-1000+20 {
			t.Errorf("silent over %d laps: %+v", laps, c)
		}
		if reported == nil || !strings.Contains(reported.Error(), "a counter of 8 bits cannot show how much it lost") {
			t.Errorf("silent over %d laps: %v", laps, reported)
		}
	}
}

// TestACounterThatWasHeldUpGoesOn: its numbers follow one another, and are late, however far the run has come.
func TestACounterThatWasHeldUpGoesOn(t *testing.T) {
	r := newWrapRun(8, false)
	for e := range uint64(500) {
		_ = r.send(e, 0, 1)
	}
	for e := uint64(500); e < 900; e++ {
		_ = r.send(e, 1)
		r.now += 100 * time.Millisecond
	}
	for e := uint64(500); e < 880; e++ {
		_ = r.send(e, 0)
	}
	for e := uint64(900); e < 1200; e++ {
		_ = r.send(e-20, 0)
		_ = r.send(e, 1)
	}
	if c := r.m.Counts(0); c.GuessedLaps > 0 || c.NewestEvent != 1179 || c.Late < 300 {
		t.Errorf("%+v", c)
	}
}

// TestACounterThatJoinsARunWaitsForACut, which says in which lap it is.
func TestACounterThatJoinsARunWaitsForACut(t *testing.T) {
	r := newWrapRun(15, false)
	r.m.SkipFirstTimeout()
	p := FragmentRef{Event: 100_003 & (1<<15 - 1), Size: 4}
	if v, err := r.m.Offer(0, p, 0); v != OfferAhead || err != nil {
		t.Fatalf("without a cut: %v, %v", v, err)
	}
	r.m.AddCut(Cut{100_000, 16}, 0)
	if v, err := r.m.Offer(0, p, 0); v != OfferKept || err != nil {
		t.Fatalf("with a cut: %v, %v", v, err)
	}
	r.m.Step(0)
	p.Event++
	_, _ = r.m.Offer(0, p, 0)
	if c := r.m.Counts(0); c.NewestEvent != 100_004 {
		t.Fatalf("%+v", c)
	}
}

// TestANumberWithMoreBitsThanTheCounterIsRefused.
func TestANumberWithMoreBitsThanTheCounterIsRefused(t *testing.T) {
	r := newWrapRun(15, false)
	v, err := r.m.Offer(0, FragmentRef{Event: 1 << 15}, 0)
	var wrong *FragmentError
	if v != OfferThrown || !errors.As(err, &wrong) || wrong.WideBits != 15 || r.m.Counts(0).Jumps != 1 ||
		!strings.Contains(err.Error(), "32768, which a counter of 15 bits cannot show") {
		t.Fatalf("%v, %v", v, err)
	}
}
