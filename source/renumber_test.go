package source_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/event"
	"ringlet/source"
	"ringlet/source/live"
	"ringlet/testkit/livetest"
	"ringlet/testkit/must"
)

// TestMatchedByTrigger: a source whose own event numbers have nothing to do with those of the run is matched by its
// trigger numbers, and is told what became of its own.
func TestMatchedByTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, reached := openInput(t, live.MarkMissing, "fake:a,fake:b?number=trigger",
			map[string]*livetest.Feed{"a": a, "b": b})
		build := func(first, end uint64, whole int) {
			t.Helper()
			for r := range reached {
				if r.FlushBelow >= end || r.OverdueBelow >= end {
					break
				}
			}
			l.AddCuts([]live.Cut{{First: first, Events: uint32(end - first)}}, false)
			if _, there := block(t, l, 30); len(there[0]) != int(end-first) || len(there[1]) != whole {
				t.Fatalf("%v", there)
			}
		}
		a.Send(0, 30, 0, 1, 2, 3)
		b.SendTriggers(1, 30, 1000, 0, 1)
		b.SendTriggers(1, 30, 1002, 1<<40) // a wild number
		b.SendTriggers(1, 30, 1003, 2, 3)
		build(0, 4, 4)
		l.SetOutcomesBelow(1)
		time.Sleep(time.Second)
		if b.Acknowledged() != 1005 || b.Resumed() != 1005 || a.Acknowledged() != 4 {
			t.Errorf("%d is safe, and %d is next", b.Acknowledged(), b.Resumed())
		}
		a.Send(0, 30, 4, 5, 6)
		b.Send(1, 30, 1005) // it has no trigger number
		b.SendTriggers(1, 30, 1006, 5, 6, 6)
		build(4, 7, 2)
		l.SetOutcomesBelow(2)
		time.Sleep(time.Second)
		want := []live.GivenUpRange{
			{From: 1002, To: 1003, Fault: live.FaultJump}, {From: 1005, To: 1006, Fault: live.FaultJump},
			{From: 1008, To: 1009, Fault: live.FaultJump}, // another event with a trigger number that was there
		}
		if d := cmp.Diff(want, b.GivenUp()); d != "" || b.Acknowledged() != 1009 || b.Resumed() != 1009 {
			t.Errorf("%d is safe, and %d is next: %s", b.Acknowledged(), b.Resumed(), d)
		}
		s := l.SourceStats()[1]
		if s.Used != 6 || s.Missing != 1 || s.Repeats != 1 || s.Jumps != 2 || s.NewestEvent != 6 {
			t.Errorf("%+v", s.Counts)
		}
	})
}

// TestMatchedByACounterOfTriggers: the trigger number has few bits, the front-end's event numbers have all.
func TestMatchedByACounterOfTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := livetest.New()
		l, reached := openInput(t, live.MarkMissing, "fake:b?wrap=2&number=trigger", map[string]*livetest.Feed{"b": b})
		if b.Settings.WrapBits != 0 {
			t.Errorf("its event numbers have %d bits", b.Settings.WrapBits)
		}
		for n := range uint64(10) {
			b.SendTriggers(0, 30, 70+n, n%4)
		}
		for r := range reached {
			if r.FlushBelow >= 10 {
				break
			}
		}
		if s := l.SourceStats()[0]; s.NewestEvent != 9 || s.Laps != 2 || b.Resumed() != 80 {
			t.Errorf("%+v, %d is next", s.Counts, b.Resumed())
		}
	})
}

// TestMatchedByTime: two sources without a common counter, whose clocks agree to less than half a period once the delay
// of one is taken off.
func TestMatchedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, reached := openInput(t, live.MarkMissing, "fake:a?number=time/25ns,fake:b?delay=1us&number=time/25ns",
			map[string]*livetest.Feed{"a": a, "b": b})
		for i := range uint64(5) {
			tick := 1000 + i
			a.SendStamped(0, 30, i, tick*25+i, tick)
			b.SendStamped(1, 30, 70+i, tick*25+1000-2*i, tick)
		}
		for r := range reached {
			if r.FlushBelow >= 1005 {
				break
			}
		}
		l.AddCuts([]live.Cut{{First: 1000, Events: 5}}, false)
		if _, there := block(t, l, 30); len(there[0]) != 5 || len(there[1]) != 5 {
			t.Fatalf("%v", there)
		}
		l.SetOutcomesBelow(1)
		time.Sleep(time.Second)
		if a.Acknowledged() != 5 || b.Acknowledged() != 75 {
			t.Errorf("%d and %d are safe", a.Acknowledged(), b.Acknowledged())
		}
	})
}

// TestMatchedWithinAWindow: a fragment whose time is near the middle between two ticks is in neither event, and of two
// at one tick the first one stays; the front-end is told of both, and sends neither again.
func TestMatchedWithinAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, reached := openInput(t, live.MarkMissing, "fake:a?number=time/25ns,fake:b?number=time/25ns&window=8ns",
			map[string]*livetest.Feed{"a": a, "b": b})
		for i, stamp := range []uint64{25_000, 25_025, 25_050, 25_075} {
			a.SendStamped(0, 30, uint64(i), stamp, 1000+uint64(i))
		}
		b.SendStamped(1, 30, 0, 25_008, 1000)
		b.SendStamped(1, 30, 1, 25_017, 1001)
		b.SendStamped(1, 30, 2, 25_018, 1001) // of the same tick
		b.SendStamped(1, 30, 3, 25_059, 1002) // 9 ns from one tick, 16 ns from the other
		b.SendStamped(1, 30, 4, 25_068, 1003)
		b.SendStamped(1, 30, 5, 25_066, 1003) // 9 ns from a tick
		for r := range reached {
			if r.OverdueBelow >= 1004 || r.FlushBelow >= 1004 {
				break
			}
		}
		l.AddCuts([]live.Cut{{First: 1000, Events: 4}}, false)
		if _, there := block(t, l, 30); len(there[0]) != 4 || len(there[1]) != 3 {
			t.Fatalf("%v", there)
		}
		l.SetOutcomesBelow(1)
		time.Sleep(time.Second)
		want := []live.GivenUpRange{
			{From: 2, To: 4, Fault: live.FaultJump}, {From: 5, To: 6, Fault: live.FaultJump},
		}
		if d := cmp.Diff(want, b.GivenUp()); d != "" || b.Acknowledged() != 6 || b.Resumed() != 6 {
			t.Errorf("%d is safe, and %d is next: %s", b.Acknowledged(), b.Resumed(), d)
		}
		s := l.SourceStats()[1]
		if s.Used != 3 || s.Missing != 1 || s.Repeats != 1 || s.Unmatched != 2 || s.Jumps != 0 ||
			!strings.Contains(s.LastFault, "event 5 is 9 ns from the nearest tick of the clock, and") {
			t.Errorf("%+v", s)
		}
	})
}

// TestWordsAreInMEPs: trigger numbers and time stamps stand in the MFP, also those by which nothing is matched; an MFP
// without any is as before.
func TestWordsAreInMEPs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, reached := openInput(t, live.MarkMissing, "fake:a,fake:b", map[string]*livetest.Feed{"a": a, "b": b})
		a.Send(0, 30, 0, 1, 2, 3)
		b.SendTriggers(1, 30, 0, 10, 11)
		b.SendStamped(1, 30, 2, 77, 12)
		for r := range reached {
			if r.OverdueBelow == 4 {
				break
			}
		}
		l.AddCuts([]live.Cut{{First: 0, Events: 4}}, false)
		var block source.Block
		dst := bytes.Repeat([]byte{0xEE}, l.MaxBlock())
		must.OK(t, l.Next(t.Context(), dst, &block))
		var got [2][]event.Words
		for i, info := range block.MFPs {
			m, err := event.ParseMFP(dst[info.Offset : info.Offset+info.Size])
			must.OK(t, err)
			if m.IsWorded() != (i == 1) || m.IsWide() != (i == 1) {
				t.Errorf("MFP %d: worded %v, wide %v", i, m.IsWorded(), m.IsWide())
			}
			for k := range m.NumFragments() {
				got[i] = append(got[i], m.Words(k))
			}
		}
		want := [2][]event.Words{make([]event.Words, 4), {
			{HasTrigger: true, Trigger: 10}, {HasTrigger: true, Trigger: 11}, {HasStamp: true, Stamp: 77}, {},
		}}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}
