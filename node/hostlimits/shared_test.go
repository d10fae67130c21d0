package hostlimits

import "testing"

func TestSharedMemoryIsThatOfThisMachine(t *testing.T) {
	size, among := SharedMemory()
	again, amongAgain := SharedMemory()
	if among == "" || size <= 0 || size != again || among != amongAgain {
		t.Errorf("%d among %s, then %d among %s", size, among, again, amongAgain)
	}
}
