package node

import (
	"testing"
	"time"
)

// TestLimitsAreReadSeldom holds that a report opens no file for what hardly ever changes, and that a change is seen.
func TestLimitsAreReadSeldom(t *testing.T) {
	var l limitsCache
	first := l.get()
	if first.memoryBytes == 0 || first.shmBytes == 0 || first.shmSharingID == "" {
		t.Fatalf("%+v", first)
	}
	if n := testing.AllocsPerRun(10, func() { l.get() }); n != 0 {
		t.Errorf("%v allocations in a reading that is not due", n)
	}
	l.last.memoryBytes, l.readAt = 1, time.Now().Add(-limitsMaxAge/2)
	if got := l.get().memoryBytes; got != 1 {
		t.Errorf("read again after half the age: %d", got)
	}
	l.readAt = time.Now().Add(-2 * limitsMaxAge)
	if got := l.get(); got.memoryBytes != first.memoryBytes {
		t.Errorf("%+v after twice the age, %+v before", got, first)
	}
}
