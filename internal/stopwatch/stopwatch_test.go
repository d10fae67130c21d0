package stopwatch

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStopwatchCountsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Stopwatch
		want := func(ms int) {
			t.Helper()
			if got := w.Total(); got != time.Duration(ms)*time.Millisecond {
				t.Errorf("%v, not %d ms", got, ms)
			}
		}
		w.Stop()
		want(0)
		w.Start()
		time.Sleep(5 * time.Millisecond)
		want(5)
		w.Stop()
		time.Sleep(7 * time.Millisecond)
		w.Stop()
		want(5)
		w.Start()
		time.Sleep(time.Millisecond)
		want(6)
	})
}
