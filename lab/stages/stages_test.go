package stages

import (
	"testing"

	"ringlet/transport"
)

// TestTracer: the sender's stages count the first time, the receiver's the last time before its code is told.
func TestTracer(t *testing.T) {
	tr := New()
	near, far := tr.Follow(false), tr.Follow(true)
	began := tr.Begin()
	near(transport.StageDatagramBuilt)
	first := tr.Passed(transport.StageDatagramBuilt)
	near(transport.StageDatagramBuilt)
	near(transport.StageReceived) // an ack
	far(transport.StageSealed)    // the answer
	if tr.Passed(transport.StageDatagramBuilt) != first || first < began || tr.Passed(transport.StageReceived) != 0 ||
		tr.Passed(transport.StageSealed) != 0 {
		t.Error("what is of acks and answers counts")
	}
	far(transport.StageReceived)
	far(transport.StageReceiverNotified)
	last := tr.Passed(transport.StageReceived)
	far(transport.StageReceived)
	if tr.Passed(transport.StageReceived) != last || last == 0 {
		t.Error("what came after the write counts")
	}
	if tr.Begin(); tr.Passed(transport.StageReceived) != 0 {
		t.Error("the last write is not forgotten")
	}
}

func TestTable(t *testing.T) {
	for i, s := range Table {
		if s.Name == "" || s.Says == "" || s.Predecessor >= i {
			t.Errorf("stage %d: %+v", i, s)
		}
	}
	if Median(nil) != 0 || Median([]int64{3000, 1000, 2000}) != 2 {
		t.Error("the median is not the middle")
	}
}
