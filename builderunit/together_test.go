package builderunit

import (
	"fmt"
	"testing"

	"ringlet/shmem"
)

// TestTogether holds that a batch leaves most slots to the scheduler where there are many, and that a sink that keeps
// MEPs holds up the outcome of none.
func TestTogether(t *testing.T) {
	for _, tc := range []struct{ slots, want int }{{4, 256}, {1024, 256}, {2048, 512}, {4096, 1024}, {8192, 1024}} {
		slots, err := shmem.CreateSlots(fmt.Sprintf("ringlet-test-together-%d", tc.slots), tc.slots, 64,
			shmem.WithDir(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		b := &finisher{Builder: &Builder{cfg: Config{Slots: slots}}, sinkDiscards: true}
		if n := b.batchLimit(); n != tc.want {
			t.Errorf("%d of %d slots are released together, not %d", n, tc.slots, tc.want)
		}
		if b.sinkDiscards = false; b.batchLimit() != 1 {
			t.Errorf("%d MEPs that are kept are released together", b.batchLimit())
		}
		if err := slots.Close(); err != nil {
			t.Error(err)
		}
	}
}
