package live

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func rules() Rules {
	return Rules{
		FragmentTimeout: time.Second,
		FlushAfter:      500 * time.Millisecond,
		Packing:         16,
		Window:          64,
		MaxMEPBytes:     1 << 20,
		AlignLog2:       2,
	}
}

func matcher(r Rules, sources int) *Matcher {
	return NewMatcher(r, []string{"a", "b", "c", "d"}[:sources], make([]bool, sources))
}

func offer(t *testing.T, m *Matcher, source int, at time.Duration, events ...uint64) {
	t.Helper()
	for _, e := range events {
		if v, err := m.Offer(source, FragmentRef{Event: e, Size: 100}, at); v != OfferKept || err != nil {
			t.Fatalf("event %d of source %d: %v, %v", e, source, v, err)
		}
	}
}

func wantReach(t *testing.T, m *Matcher, at time.Duration, want Reach, again time.Duration) {
	t.Helper()
	if got, next := m.Step(at); got != want || next != again {
		t.Fatalf("at %v: %+v, again at %v; want %+v, %v", at, got, next, want, again)
	}
}

func TestMatcherFlushesWhatIsComplete(t *testing.T) {
	m := matcher(rules(), 2)
	offer(t, m, 0, 0, 0, 1)
	wantReach(t, m, 0, Reach{}, time.Second)
	offer(t, m, 1, 10*time.Millisecond, 0)
	wantReach(t, m, 10*time.Millisecond, Reach{CompleteBelow: 1}, 500*time.Millisecond)
	wantReach(t, m, 500*time.Millisecond, Reach{CompleteBelow: 1, FlushBelow: 1}, time.Second)
	c := Cut{0, 1}
	m.AddCut(c, 500*time.Millisecond)
	m.Step(501 * time.Millisecond)
	if !m.IsCutDecided() {
		t.Fatal("a cut of decided events is not ready")
	}
	m.FinishCut(501 * time.Millisecond)
	if d := m.TakeDropped(); len(d) != 2 {
		t.Fatalf("%d fragments came back, want 2", len(d))
	}
}

func TestMatcherGivesUpASilentSource(t *testing.T) {
	m := matcher(rules(), 2)
	offer(t, m, 0, 0, 0)
	offer(t, m, 0, 300*time.Millisecond, 1)
	wantReach(t, m, time.Second, Reach{
		CompleteBelow: 1,
		FlushBelow:    1,
		OverdueBelow:  1,
	}, 1300*time.Millisecond)
	_, err := m.Offer(1, FragmentRef{Event: 0}, time.Second)
	var late *FragmentError
	if !errors.As(err, &late) || late.Fault != FaultLate || late.Source != "b" {
		t.Fatalf("a fragment of a decided event: %v", err)
	}
	m.AddCut(Cut{0, 1}, time.Second)
	m.FinishCut(time.Second)
	if c := m.Counts(1); c.Missing != 1 || c.Late != 1 {
		t.Fatalf("%+v", c)
	}
}

// TestMatcherMakesNoMEPOfEachEvent: a source that lags behind the others for longer than flush-after, or gives nothing,
// must not make MEPs small for good.
func TestMatcherMakesNoMEPOfEachEvent(t *testing.T) {
	for name, lags := range map[string]bool{"a source lags": true, "another readout unit gives nothing": false} {
		m := matcher(rules(), 2)
		cuts := 0
		cut := func(now time.Duration) {
			r, _ := m.Step(now)
			to := r.FlushBelow
			if !lags {
				to = r.OverdueBelow
			}
			if to > m.cuts.end {
				c := Cut{m.cuts.end, uint32(to - m.cuts.end)}
				m.AddCut(c, now)
				m.FinishCut(now)
				cuts++
			}
		}
		for e := range uint64(10_000) {
			now := time.Duration(e) * 100 * time.Millisecond
			offer(t, m, 0, now, e)
			if lags && e >= 9 {
				offer(t, m, 1, now, e-9)
			} else if !lags {
				offer(t, m, 1, now, e)
			}
			cut(now)
		}
		if cuts < 1000 || cuts > 2000 {
			t.Errorf("%s: %d MEPs of 10,000 events at 10 Hz", name, cuts)
		}
	}
}

func TestMatcherWaits(t *testing.T) {
	r := rules()
	r.OnMissing = WaitForMissing
	m := matcher(r, 2)
	offer(t, m, 0, 0, 0)
	wantReach(t, m, time.Hour, Reach{}, Never)
	m.MarkSourceOver(1) // nothing can come any more
	if got, _ := m.Step(time.Hour); got.CompleteBelow != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestMatcherNamesWhatStopsTheRun(t *testing.T) {
	m := matcher(rules(), 2)
	offer(t, m, 0, 0, 0, 1)
	offer(t, m, 1, 0, 0)
	m.Step(time.Second)
	var missing *MissingError
	if err := m.firstMissing(Cut{0, 2}); !errors.As(err, &missing) || *missing != (MissingError{"b", 1}) {
		t.Fatalf("%v", err)
	}
}

func TestMatcherDoesNotWaitForNumbersLeftOut(t *testing.T) {
	m := matcher(rules(), 2)
	offer(t, m, 0, 0, 0, 1, 2)
	offer(t, m, 1, 0, 0, 2) // 2 may be garbage, until the source goes on there
	offer(t, m, 0, 0, 3)
	wantReach(t, m, 0, Reach{CompleteBelow: 1}, 500*time.Millisecond)
	_, err := m.Offer(1, FragmentRef{Event: 3}, 0)
	var gap *FragmentError
	if !errors.As(err, &gap) || gap.Fault != FaultGap {
		t.Fatalf("%v", err)
	}
	wantReach(t, m, 0, Reach{CompleteBelow: 4}, 500*time.Millisecond)
}

func TestMatcherBeginsWhereTheNumbersBegin(t *testing.T) {
	for _, first := range []uint64{17, 1 << 40} {
		m := matcher(rules(), 2)
		offer(t, m, 0, 0, first)
		offer(t, m, 1, 0, first)
		wantReach(t, m, 0, Reach{FirstUncut: first, CompleteBelow: first + 1}, 500*time.Millisecond)
	}
}

func TestMatcherThrowsAwayASingleWildNumber(t *testing.T) {
	m := matcher(rules(), 1)
	offer(t, m, 0, 0, 0, 1<<50)
	if v, err := m.Offer(0, FragmentRef{Event: 1}, 0); v != OfferKept || err != nil {
		t.Fatalf("%v, %v", v, err)
	}
	got, _ := m.Step(0)
	d := m.TakeDropped()
	if got.CompleteBelow != 2 || len(d) != 1 || d[0].Fault != FaultJump || d[0].Event != 1<<50 {
		t.Fatalf("%+v, %+v", got, d)
	}
}

func TestMatcherTakesNoMoreThanAMEPCanHold(t *testing.T) {
	r := rules()
	r.MaxMEPBytes = 250
	m := matcher(r, 1)
	offer(t, m, 0, 0, 0, 1, 2, 3)
	wantReach(t, m, 0, Reach{CompleteBelow: 2, FlushBelow: 2}, time.Second)
	m.AddCut(Cut{0, 2}, 0)
	if got, _ := m.Step(0); got.CompleteBelow != 4 {
		t.Fatalf("%+v", got)
	}
}

func TestMatcherDoesNotBlameASourceThatWeHoldUp(t *testing.T) {
	m := matcher(rules(), 2)
	offer(t, m, 0, 0, 0)
	m.SetStalled(1, true, 0)
	if got, again := m.Step(time.Minute); got.CompleteBelow != 0 || again != Never {
		t.Fatalf("%+v, %v", got, again)
	}
	m.SetStalled(1, false, time.Minute)
	wantReach(t, m, time.Minute, Reach{}, time.Minute+time.Second)
}

// TestMatcherAccounts lets sources interleave, drop, repeat and restart at will: each fragment ends in one account, and
// the bytes of each are given back once.
func TestMatcherAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rules()
		r.OnMissing = rapid.SampledFrom([]OnMissing{MarkMissing, StopAtMissing}).Draw(t, "policy")
		n := rapid.IntRange(1, 4).Draw(t, "sources")
		unordered := make([]bool, n)
		next, offered := make([]uint64, n), make([]uint64, n)
		for i := range unordered {
			unordered[i] = rapid.Bool().Draw(t, "unordered")
		}
		m := NewMatcher(r, []string{"a", "b", "c", "d"}[:n], unordered)
		held, now, ref, end, built := map[uint64]bool{}, time.Duration(0), uint64(0), uint64(0), uint64(0)
		take := func() {
			reach, _ := m.Step(now)
			if reach.CompleteBelow > end {
				c := Cut{max(end, reach.FirstUncut), 0}
				c.Events = uint32(min(reach.CompleteBelow-c.First, 50))
				if end = c.End(); c.Events > 0 {
					m.AddCut(c, now)
					m.Step(now)
					if !m.IsCutDecided() {
						t.Fatalf("%+v is not ready at %+v", c, reach)
					}
					m.FinishCut(now)
					built += uint64(c.Events)
				}
			}
			for _, d := range m.TakeDropped() {
				if !held[d.Ref] {
					t.Fatalf("%+v came back twice", d)
				}
				delete(held, d.Ref)
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			s := rapid.IntRange(0, n-1).Draw(t, "source")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				now += time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond
			case 1:
				next[s] += rapid.Uint64Range(1, 200).Draw(t, "left out")
			case 2:
				next[s] -= min(next[s], rapid.Uint64Range(1, 300).Draw(t, "again"))
			case 3:
				take()
			default:
				v, _ := m.Offer(s, FragmentRef{Event: next[s], Ref: ref, Size: 10}, now)
				if v == OfferAhead {
					take()
					break
				}
				offered[s]++
				if v == OfferKept {
					held[ref] = true
				}
				ref++
				next[s]++
			}
		}
		take()
		for i := range n {
			c := m.Counts(i)
			if sum := c.Used + c.Repeats + c.Backwards + c.Late + c.Jumps + c.WaitingFragments; sum != offered[i] {
				t.Fatalf("source %d: %d fragments offered, %d in accounts: %+v", i, offered[i], sum, c)
			}
			if c.Used+c.Missing != built {
				t.Fatalf("source %d: %d used and %d missing of %d", i, c.Used, c.Missing, built)
			}
		}
		leftOver := uint64(0)
		for i := range n {
			leftOver += m.Counts(i).WaitingFragments
		}
		if uint64(len(held)) != leftOver {
			t.Fatalf("%d fragments were not given back, %d are held", len(held), leftOver)
		}
	})
}

func TestMatcherAllocatesNothing(t *testing.T) {
	m := matcher(rules(), 2)
	e := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		for s := range 2 {
			if v, _ := m.Offer(s, FragmentRef{Event: e, Size: 10}, 0); v != OfferKept {
				t.Fatal(v)
			}
		}
		m.Step(0)
		c := Cut{e, 1}
		m.AddCut(c, 0)
		m.FinishCut(0)
		m.TakeDropped()
		e++
	}); n > 0 {
		t.Fatalf("%v allocations for an event", n)
	}
}

// TestFirstFragmentMayTakeLonger waits for a source that has not given anything, and not so long for one that has.
func TestFirstFragmentMayTakeLonger(t *testing.T) {
	rules := Rules{
		FragmentTimeout:      time.Second,
		FirstFragmentTimeout: time.Minute,
		Window:               64,
		MaxMEPBytes:          1 << 20,
	}
	m := NewMatcher(rules, []string{"a", "b"}, []bool{false, true})
	offer := func(source int, e uint64, now time.Duration) {
		t.Helper()
		if v, err := m.Offer(source, FragmentRef{Event: e}, now); v != OfferKept || err != nil {
			t.Fatalf("event %d of source %d: %v, %v", e, source, v, err)
		}
	}
	to := func(now time.Duration, want uint64) {
		t.Helper()
		if r, _ := m.Step(now); r.CompleteBelow != want {
			t.Errorf("after %v the data go to %d, not %d", now, r.CompleteBelow, want)
		}
	}
	offer(0, 0, 0)
	offer(0, 1, 0)
	to(time.Minute-1, 0)
	offer(1, 0, time.Minute-1)
	to(time.Minute-1+rules.FragmentTimeout-1, 1) // source 1 has its time for event 1, from when it began
	to(time.Minute-1+rules.FragmentTimeout, 2)
	offer(0, 2, 2*time.Minute)
	to(2*time.Minute+rules.FragmentTimeout-1, 2)
	to(2*time.Minute+rules.FragmentTimeout, 3)
}

// TestOverIsTheLastWord: others have more events than a readout unit whose sources are over; what is cut of them does
// not move its own end.
func TestOverIsTheLastWord(t *testing.T) {
	m := NewMatcher(Rules{
		FragmentTimeout:      time.Second,
		FirstFragmentTimeout: time.Second,
		FlushAfter:           time.Second,
		Packing:              10,
		Window:               64,
		MaxMEPBytes:          1 << 20,
	}, []string{"a"}, []bool{false})
	for e := range uint64(7) {
		if v, err := m.Offer(0, FragmentRef{Event: e}, 0); v != OfferKept || err != nil {
			t.Fatal(v, err)
		}
	}
	m.MarkSourceOver(0)
	first, _ := m.Step(0)
	for _, c := range []Cut{{0, 10}, {10, 10}} {
		m.AddCut(c, 0)
		m.Step(0)
		m.FinishCut(0)
	}
	if last, _ := m.Step(0); !first.InputOver || first.CompleteBelow != 7 ||
		last != (Reach{FirstUncut: 7, CompleteBelow: 7, FlushBelow: first.FlushBelow, InputOver: true}) {
		t.Errorf("%+v, and then %+v", first, last)
	}
}

// TestStopIsWhole: where no event may lack a fragment, what comes before one that does can be cut by itself, and so can
// what comes before numbers that nobody has. At the end that somebody wants what is not whole is not told of.
func TestStopIsWhole(t *testing.T) {
	m := NewMatcher(Rules{
		FragmentTimeout:      time.Second,
		FirstFragmentTimeout: time.Second,
		FlushAfter:           time.Hour,
		OnMissing:            StopAtMissing,
		Packing:              10,
		Window:               64,
		MaxMEPBytes:          1 << 20,
	}, []string{"a", "b"}, []bool{false, false})
	sent := [][]uint64{{20, 21, 24, 25, 26, 27}, {20, 21, 24, 26, 27}}
	for i, events := range sent {
		for _, e := range events {
			if v, _ := m.Offer(i, FragmentRef{Event: e}, 0); v != OfferKept {
				t.Fatal(v)
			}
		}
	}
	for _, want := range []struct {
		to, first uint64
		n         uint32
	}{{22, 20, 2}, {25, 24, 1}} {
		r, _ := m.Step(0)
		if r.CompleteBelow != want.to || r.FlushBelow != want.to || r.InputOver {
			t.Fatalf("%+v, and not up to %d", r, want.to)
		}
		c := Cut{want.first, want.n}
		m.AddCut(c, 0)
		m.Step(0)
		if err := m.firstMissing(c); err != nil || !m.IsCutDecided() {
			t.Fatal(err)
		}
		m.FinishCut(0)
	}
	r, _ := m.Step(0)
	c := Cut{25, 1}
	m.AddCut(c, 0)
	m.Step(0)
	var missing *MissingError
	if err := m.firstMissing(c); r.CompleteBelow < 26 || !m.IsCutDecided() || !errors.As(err, &missing) ||
		*missing != (MissingError{"b", 25}) {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestStopCeases(t *testing.T) {
	m := NewMatcher(Rules{
		FragmentTimeout:      time.Second,
		FirstFragmentTimeout: time.Second,
		FlushAfter:           time.Hour,
		OnMissing:            StopAtMissing,
		Packing:              10,
		Window:               64,
		MaxMEPBytes:          1 << 20,
	}, []string{"a", "b", "c"}, []bool{false, false, false})
	for i, n := range []uint64{7, 5, 6} {
		for e := range n {
			_, _ = m.Offer(i, FragmentRef{Event: e}, 0)
		}
		if r, _ := m.Step(0); r.InputOver {
			t.Fatalf("%+v", r)
		}
		m.StopSource(i)
	}
	if r, _ := m.Step(time.Hour); r.CompleteBelow != 5 || !r.InputOver {
		t.Fatalf("%+v", r)
	}
}
