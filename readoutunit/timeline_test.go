package readoutunit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTimeline plays a unit that has room for three steps, in virtual time from 0 on.
func TestTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UnixMicro()
		l := newTimeline(3)
		tick := func() { time.Sleep(time.Microsecond) }
		want := func(what string, steps ...TimelineStep) {
			t.Helper()
			got := l.steps()
			for i := range got {
				for _, us := range []*int64{&got[i].BeginMicros, &got[i].OutcomeMicros, &got[i].ReleasedMicros} {
					if *us != 0 {
						*us -= start
					}
				}
			}
			if d := cmp.Diff(append([]TimelineStep{}, steps...), got); d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
		want("nothing has happened")
		l.recordSent(time.Now(), 1, 9)
		l.recordReleased(time.Now(), 0)
		want("of what is not kept nothing is noted")

		tick() // 1
		l.recordBegin(time.Now(), 0, 1, 9, 1)
		tick() // 2
		l.recordSent(time.Now(), 1, 9)
		tick() // 3
		l.recordReleased(time.Now(), 0)
		want("a phase", TimelineStep{0, 1, 9, 1, 1, 2, 3})

		tick() // 4
		l.recordBegin(time.Now(), 1, Dummy, 0, 0)
		tick() // 5
		l.recordReleased(time.Now(), 1)
		want("a dummy", TimelineStep{0, 1, 9, 1, 1, 2, 3}, TimelineStep{1, Dummy, 0, 0, 4, 4, 5})

		tick() // 6
		l.recordBegin(time.Now(), 2, 0, 10, 1)
		l.recordBegin(time.Now(), 2, 2, 11, 1)
		tick() // 7
		l.recordSent(time.Now(), 2, 11)
		tick() // 8
		l.recordReleased(time.Now(), 2)
		tick() // 9
		l.recordSent(time.Now(), 0, 10)
		want("two writes in a phase, one of which outlasts it; the oldest step made room",
			TimelineStep{1, Dummy, 0, 0, 4, 4, 5}, TimelineStep{2, 0, 10, 1, 6, 9, 8}, TimelineStep{2, 2, 11, 1, 6, 7, 8})
		l.recordSent(time.Now(), 0, 10)
		want("a second outcome changes nothing",
			TimelineStep{1, Dummy, 0, 0, 4, 4, 5}, TimelineStep{2, 0, 10, 1, 6, 9, 8}, TimelineStep{2, 2, 11, 1, 6, 7, 8})
	})
}

func TestTimelineWithoutCapacity(t *testing.T) {
	l := newTimeline(0)
	l.recordBegin(time.Now(), 0, 1, 9, 1)
	l.recordSent(time.Now(), 1, 9)
	l.recordReleased(time.Now(), 0)
	if got := l.steps(); len(got) != 0 {
		t.Error(got)
	}
}

func TestTimelineAllocatesNothing(t *testing.T) {
	l := newTimeline(8)
	if n := testing.AllocsPerRun(100, func() {
		l.recordBegin(time.Now(), 1, 2, 3, 1)
		l.recordSent(time.Now(), 2, 3)
		l.recordReleased(time.Now(), 1)
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// BenchmarkTimeline is what a step costs: begun, sent and released, where none are kept and where a live run's are.
func BenchmarkTimeline(b *testing.B) {
	for _, kept := range []int{0, 64, 4096} {
		b.Run(fmt.Sprintf("kept %d", kept), func(b *testing.B) {
			l := newTimeline(kept)
			b.ReportAllocs()
			for n := range uint64(b.N) {
				l.recordBegin(time.Now(), n, 1, n, 1)
				l.recordSent(time.Now(), 1, n)
				l.recordReleased(time.Now(), n)
			}
		})
	}
}
