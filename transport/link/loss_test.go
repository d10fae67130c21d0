package link

import (
	"math/rand/v2"
	"testing"
)

// TestShareOfLoss: what is taken for a way that loses.
func TestShareOfLoss(t *testing.T) {
	for _, tc := range []struct {
		name    string
		again   int // of each 100 datagrams
		doubled int // of those, what the peer says has come twice
		lossy   bool
	}{
		{"nothing", 0, 0, false},
		{"2 %", 2, 0, true},
		{"5 %", 5, 0, true},
		{"a queue that overflows", 30, 0, false},
		{"sent again for nothing", 20, 20, false},
		{"copies, of which 2 % were needed", 20, 18, true},
	} {
		var l loss
		doubled := uint16(0xfff0) // wraps soon
		l.doubled[0] = doubled
		for range 20 {
			for i := range 100 {
				l.transmitted(i < tc.again)
			}
			doubled += uint16(tc.doubled)
			l.told(laneRequests, doubled)
			l.told(laneRequests, doubled-uint16(tc.doubled)) // an echo that comes late
		}
		if l.lossy() != tc.lossy {
			t.Errorf("%s: lossy is %v, with a share of %d of 65536", tc.name, l.lossy(), l.share)
		}
		for range 3000 {
			l.transmitted(false)
		}
		if l.lossy() {
			t.Errorf("%s: it is not forgotten", tc.name)
		}
	}
}

// lockStep has both ends write and answer in turn, each after the other's, as the phases of a shift do, and returns how
// long a turn takes.
func lockStep(t *testing.T, loss float64, turns int) int64 {
	t.Helper()
	d := newDuo(t, Config{MaxDatagram: 8940, Congestion: true, Piggyback: true, Window: 116, EchoEvery: 19})
	rng := rand.New(rand.NewPCG(7, 7))
	d.drop = func(int, []byte) bool { return rng.Float64() < loss }
	const way = 100_000 // ns: two processes that wake each other
	begin := d.now
	pieces := []Piece{{Ref: d.ref[0], Data: pattern(850, 1)}}
	for i := range turns {
		e := i % 2
		d.core[e].WriteMany(pieces, uint64(i))
		d.core[e].Signal([]byte("your turn"))
		want := i/2 + 1
		for len(d.of(1-e, Signalled)) < want || len(d.of(e, Completed)) < want {
			d.settle()
			d.now += way
			for _, c := range d.core {
				c.Tick(d.now)
			}
			if d.now-begin > int64(turns)*second {
				t.Fatalf("stuck in turn %d", i)
			}
		}
	}
	return (d.now - begin) / int64(turns)
}

// TestLossInLockStep: where each datagram is the last of a burst, 2 % of loss cost less than half of the pace (issue
// 11, row 10).
func TestLossInLockStep(t *testing.T) {
	lockStep(t, 0, 10)
	clean := lockStep(t, 0, 2000)
	for _, loss := range []float64{0.02, 0.05} {
		lossy := lockStep(t, loss, 2000)
		t.Logf("a turn takes %d µs, and %d µs at a loss of %v", clean/1000, lossy/1000, loss)
		if most := clean * 2; loss == 0.02 && lossy > most {
			t.Errorf("a turn takes %d µs at a loss of %v, want at most %d", lossy/1000, loss, most/1000)
		}
	}
}
