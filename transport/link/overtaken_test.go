package link

import "testing"

// TestLostSignalIsRepairedWhileRequestsFlow: the last datagram of a lane is lost, and the other lane leaves no silence.
func TestLostSignalIsRepairedWhileRequestsFlow(t *testing.T) {
	d := newDuo(t, Config{Piggyback: true, Congestion: true})
	lose := true
	d.drop = func(from int, b []byte) bool {
		gone := lose && from == 0 && b[1]&^flagWaits == laneResponses
		lose = lose && !gone
		return gone
	}
	d.core[0].Signal([]byte("first"))
	data := pattern(64<<10, 1)
	for i := range 8 {
		d.write(0, 0, data, uint64(i))
		d.settle()
	}
	if lose {
		t.Fatal("nothing was lost")
	}
	if got := d.of(1, Signalled); len(got) != 1 {
		t.Errorf("%d signals arrived without a time-out", len(got))
	}
}
