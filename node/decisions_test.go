package node

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A herald tells each decision unit how far events are triggered: at once, not more often than it may, and what was
// known before the decision unit was there, too.
func TestHerald(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []uint64
		h := startHerald(func(epoch uint8, below uint64) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, uint64(epoch)<<32|below)
		})
		is := func(want ...uint64) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("told %x, not %x", told, want)
			}
		}
		h.triggered(10)
		is() // there is nobody
		h.open(1)
		is(1<<32 | 10)
		h.triggered(20)
		h.triggered(15) // does not go back
		h.triggered(30)
		is(1<<32 | 10)
		time.Sleep(heraldEvery)
		is(1<<32|10, 1<<32|30)
		h.shut()
		h.triggered(40)
		time.Sleep(time.Second)
		is(1<<32|10, 1<<32|30)
		h.open(2)
		is(1<<32|10, 1<<32|30, 2<<32|40)
		h.triggered(50)
		h.close() // tells what is new at once
		is(1<<32|10, 1<<32|30, 2<<32|40, 2<<32|50)
	})
}
