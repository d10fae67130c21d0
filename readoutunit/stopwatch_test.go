package readoutunit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStopwatchCountsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w stopwatch
		want := func(ms int) {
			t.Helper()
			if got := w.read(); got != time.Duration(ms)*time.Millisecond {
				t.Errorf("%v, not %d ms", got, ms)
			}
		}
		w.stop()
		want(0)
		w.turn(true)
		time.Sleep(5 * time.Millisecond)
		want(5)
		w.turn(false)
		time.Sleep(7 * time.Millisecond)
		w.stop()
		want(5)
		w.start()
		time.Sleep(time.Millisecond)
		want(6)
	})
}
