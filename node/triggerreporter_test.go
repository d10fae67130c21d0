package node

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A trigger reporter tells each decision unit how far events are triggered: at once, not more often than it may, and
// what was known before the decision unit was there, too.
func TestTriggerReporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reports []uint64
		h := startTriggerReporter(func(epoch uint8, below uint64) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, uint64(epoch)<<32|below)
		})
		is := func(want ...uint64) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(reports, want) {
				t.Errorf("told %x, not %x", reports, want)
			}
		}
		h.advance(10)
		is() // there is nobody
		h.connect(1)
		is(1<<32 | 10)
		h.advance(20)
		h.advance(15) // does not go back
		h.advance(30)
		is(1<<32 | 10)
		time.Sleep(triggerReportInterval)
		is(1<<32|10, 1<<32|30)
		h.disconnect()
		h.advance(40)
		time.Sleep(time.Second)
		is(1<<32|10, 1<<32|30)
		h.connect(2)
		is(1<<32|10, 1<<32|30, 2<<32|40)
		h.advance(50)
		h.close() // tells what is new at once
		is(1<<32|10, 1<<32|30, 2<<32|40, 2<<32|50)
	})
}
