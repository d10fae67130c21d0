package node

import (
	"testing"
	"time"
)

// TestLimitsAreReadSeldom holds that a report opens no file for what hardly ever changes, and that a change is seen.
func TestLimitsAreReadSeldom(t *testing.T) {
	var l limitsCache
	first := l.get()
	if first.memory == 0 || first.shm == 0 || first.shares == "" {
		t.Fatalf("%+v", first)
	}
	if n := testing.AllocsPerRun(10, func() { l.get() }); n != 0 {
		t.Errorf("%v allocations in a reading that is not due", n)
	}
	l.last.memory, l.readAt = 1, time.Now().Add(-limitsMaxAge/2)
	if got := l.get().memory; got != 1 {
		t.Errorf("read again after half the age: %d", got)
	}
	l.readAt = time.Now().Add(-2 * limitsMaxAge)
	if got := l.get(); got.memory != first.memory {
		t.Errorf("%+v after twice the age, %+v before", got, first)
	}
}
