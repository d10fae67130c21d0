package link

import "testing"

// TestShareOfLoss: what is taken for a path that loses.
func TestShareOfLoss(t *testing.T) {
	for _, tc := range []struct {
		name       string
		again      int // of each 100 datagrams
		duplicates int // of those, what the peer says has come twice
		lossy      bool
	}{
		{"nothing", 0, 0, false},
		{"2 %", 2, 0, true},
		{"5 %", 5, 0, true},
		{"a queue that overflows", 30, 0, false},
		{"sent again for nothing", 20, 20, false},
		{"copies, of which 2 % were needed", 20, 18, true},
	} {
		var l loss
		duplicates := uint16(0xfff0) // wraps soon
		l.reportedDuplicates[0] = duplicates
		for range 20 {
			for i := range 100 {
				again, twice := share(tc.again, i), share(tc.duplicates, i)
				l.onArrival(1 + again)
				duplicates += uint16(twice)
				l.onDuplicates(spaceRequests, duplicates)
				l.onDuplicates(spaceRequests, duplicates-uint16(twice)) // an ack that comes late
			}
		}
		if l.isLossy() != tc.lossy {
			t.Errorf("%s: lossy is %v, with a share of %d of %d", tc.name, l.isLossy(), l.lossShare, shareUnit)
		}
		for range 3000 {
			l.onArrival(1)
		}
		if l.isLossy() {
			t.Errorf("%s: it is not forgotten", tc.name)
		}
	}
}

// share spreads n of 100 evenly: it is 1 for n values of i in 0 to 99.
func share(n, i int) int { return (i+1)*n/100 - i*n/100 }

// TestGapIsReportedAtOnce: an ack that nobody waits for may wait, but not when it has something to tell that the
// sender must repair.
func TestGapIsReportedAtOnce(t *testing.T) {
	d := newDuo(t, Config{PiggybackAcks: true, AckEvery: 1000})
	n := 0
	d.drop = func(from int, b []byte) bool {
		if from == 0 && b[1]&^flagImmediateAck == spaceRequests {
			n++
		}
		return from == 0 && n == 5
	}
	d.write(0, 0, pattern(10*fullChunk(1415), 1), 1)
	d.exchange()
	if d.drop = nil; n < 11 {
		t.Errorf("%d datagrams were sent before any time has passed, want 10 and a repetition", n)
	}
	if got := len(d.eventsOf(0, EventCompleted)); got != 1 {
		t.Errorf("%d writes are completed before any time has passed", got)
	}
}
