package source_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/source/live"
	"ringlet/testkit/livetest"
)

// TestLateIsGivenUp: what comes too late is in no file, so its front-end hears that it was given up before it hears
// that all below is safe.
func TestLateIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, reached := openLive(t, live.MarkMissing, a, b)
		a.Send(0, 30, 0, 1, 2, 3)
		b.Send(1, 30, 0)
		for r := range reached {
			if r.OverdueBelow == 4 {
				break
			}
		}
		l.AddCuts([]live.Cut{{First: 0, Events: 4}}, false)
		block(t, l, 30)
		l.SetOutcomesBelow(1)
		time.Sleep(time.Second)
		if b.Acknowledged() != 1 {
			t.Fatalf("%d is safe", b.Acknowledged())
		}
		b.Send(1, 30, 1, 2, 3)
		time.Sleep(time.Second)
		want := []live.GivenUpRange{{From: 1, To: 4, Fault: live.FaultLate}}
		if d := cmp.Diff(want, b.GivenUp()); d != "" || b.Acknowledged() != 4 || b.Resumed() != 4 {
			t.Errorf("%d is safe, and %d is next: %s", b.Acknowledged(), b.Resumed(), d)
		}
		if s := l.SourceStats()[1]; s.Late != 3 || s.Missing != 3 || s.Used != 1 || len(a.GivenUp()) > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWildNumberInAPause is thrown away when the source goes on where it was, told as such, and counts for nothing: not
// for where to resume, and not for what is safe.
func TestWildNumberInAPause(t *testing.T) {
	for _, wild := range []uint64{1 << 50, 500} {
		synctest.Test(t, func(t *testing.T) {
			a, b := livetest.New(), livetest.New()
			l, reached := openLive(t, live.MarkMissing, a, b)
			build := func(first, end uint64) {
				for r := range reached {
					if r.FlushBelow >= end {
						break
					}
				}
				l.AddCuts([]live.Cut{{First: first, Events: uint32(end - first)}}, false)
				if _, there := block(t, l, 30); len(there[0]) != int(end-first) || len(there[1]) != int(end-first) {
					t.Fatalf("%v", there)
				}
			}
			a.Send(0, 30, 0, 1, 2, wild)
			b.Send(1, 30, 0, 1, 2)
			build(0, 3)
			time.Sleep(time.Minute)
			if a.Resumed() != 3 {
				t.Fatalf("it is to resume at %d", a.Resumed())
			}
			a.Send(0, 30, 3, 4)
			b.Send(1, 30, 3, 4)
			build(3, 5)
			l.SetOutcomesBelow(2)
			time.Sleep(time.Second)
			want := []live.GivenUpRange{{From: wild, To: wild + 1, Fault: live.FaultJump}}
			if d := cmp.Diff(want, a.GivenUp()); d != "" || a.Acknowledged() != 5 || l.SourceStats()[0].Jumps != 1 {
				t.Errorf("%d is safe, %+v: %s", a.Acknowledged(), l.SourceStats()[0].Counts, d)
			}
		})
	}
}

// TestWhatCameAgainIsNotGivenUp: the first one has its own outcome, and a client takes what is given up for done with.
func TestWhatCameAgainIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := livetest.New()
		l, _ := openLive(t, live.MarkMissing, a)
		a.Send(0, 30, 0, 1, 0, 1, 2)
		time.Sleep(time.Second)
		s := l.SourceStats()[0]
		if s.Repeats != 2 || s.WaitingFragments != 3 || len(a.GivenUp()) > 0 {
			t.Errorf("%+v, given up: %+v", s.Counts, a.GivenUp())
		}
	})
}

// TestSourcesApart names two sources that share no number, and what they gave, within two seconds.
func TestSourcesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := livetest.New(), livetest.New()
		l, _ := openLive(t, live.MarkMissing, a, b)
		a.Send(0, 30, 0, 1, 2)
		b.Send(1, 30, 1_000_001, 1_000_002)
		time.Sleep(2 * time.Second)
		if got := l.SourceStats()[0].Disjoint; !strings.Contains(got, "fake:a gave 0 to 2, fake:b gave 1000001 to 100000") {
			t.Error(got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // at once where all of one is there
		a, b := livetest.New(), livetest.New()
		l, _ := openLive(t, live.MarkMissing, a, b)
		a.Send(0, 30, 0, 1, 2)
		b.Send(1, 30, 1_000_001, 1_000_002)
		time.Sleep(time.Second)
		a.End()
		time.Sleep(time.Millisecond)
		if got := l.SourceStats()[1].Disjoint; !strings.Contains(got, "fake:b gave 1000001 to 100000") {
			t.Error(got)
		}
	})
}
