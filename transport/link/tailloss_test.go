package link

import "testing"

// TestLostSignalIsRepairedWhileRequestsFlow: the last datagram of a space is lost, and the other space leaves no
// silence.
func TestLostSignalIsRepairedWhileRequestsFlow(t *testing.T) {
	d := newDuo(t, Config{PiggybackAcks: true, CongestionControl: true})
	lose := true
	d.drop = func(from int, b []byte) bool {
		gone := lose && from == 0 && b[1]&^flagImmediateAck == spaceResponses
		lose = lose && !gone
		return gone
	}
	d.core[0].Signal([]byte("first"))
	data := pattern(64<<10, 1)
	for i := range 20 { // 10 ms apart: never silent for as long as a time-out
		d.now += 10 * millisecond
		d.write(0, 0, data, uint64(i))
		d.exchange()
	}
	if lose {
		t.Fatal("nothing was lost")
	}
	if s := d.core[0].Stats(); s.Timeouts+s.Probes > 0 {
		t.Fatalf("it was not silence that was tried: %+v", s)
	}
	if got := d.eventsOf(1, EventSignal); len(got) != 1 {
		t.Errorf("%d signals arrived while requests flow", len(got))
	}
}
