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
				again, twice := share(tc.again, i), share(tc.doubled, i)
				l.arrived(1 + again)
				doubled += uint16(twice)
				l.told(laneRequests, doubled)
				l.told(laneRequests, doubled-uint16(twice)) // an echo that comes late
			}
		}
		if l.lossy() != tc.lossy {
			t.Errorf("%s: lossy is %v, with a share of %d of %d", tc.name, l.lossy(), l.share, whole)
		}
		for range 3000 {
			l.arrived(1)
		}
		if l.lossy() {
			t.Errorf("%s: it is not forgotten", tc.name)
		}
	}
}

// share spreads n of 100 evenly: it is 1 for n values of i in 0 to 99.
func share(n, i int) int { return (i+1)*n/100 - i*n/100 }

// lockStep has both ends write so many bytes and answer in turn, each after the other's, as the phases of a shift do,
// and returns how long a turn takes.
func lockStep(t *testing.T, loss float64, size, turns int, seed uint64) int64 {
	t.Helper()
	d := newDuo(t, Config{MaxDatagram: 8940, Congestion: true, Piggyback: true, Window: 116, EchoEvery: 19})
	rng := rand.New(rand.NewPCG(seed, 7))
	d.drop = func(int, []byte) bool { return rng.Float64() < loss }
	const way = 100_000 // ns: two processes that wake each other
	begin := d.now
	data := pattern(size, 1)
	for i := range turns {
		e := i % 2
		if size <= MaxPiece {
			d.core[e].WriteMany([]Piece{{Ref: d.ref[e], Data: data}}, uint64(i))
		} else {
			d.write(e, 0, data, uint64(i))
		}
		d.core[e].Signal([]byte("your turn"))
		d.events = [2][]Event{}
		for len(d.of(1-e, Signalled)) == 0 || len(d.of(e, Completed)) == 0 {
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

// TestLossInLockStep: 2 % of loss cost less than half of the pace (issue 11, row 10), where each datagram is the last
// of a burst, and where a turn has several datagrams.
func TestLossInLockStep(t *testing.T) {
	for _, size := range []int{850, 25_000, 250_000} {
		clean := lockStep(t, 0, size, 2000, 7)
		for _, loss := range []float64{0.02, 0.05} {
			lossy := lockStep(t, loss, size, 2000, 7)
			t.Logf("a turn of %d bytes takes %d µs, and %d µs at a loss of %v", size, clean/1000, lossy/1000, loss)
			if most := clean * 2; loss == 0.02 && lossy > most {
				t.Errorf("a turn takes %d µs at a loss of %v, want at most %d", lossy/1000, loss, most/1000)
			}
		}
	}
}

// TestLossIsLearnedAtOnce: a link of small MEPs has few datagrams, so that it has to learn from its first loss how long
// repair may wait. A hundred turns take twice as long as without loss at most, and once what an end waits that has not
// learned yet: a probe each, and what it assumes the round trip to be.
func TestLossIsLearnedAtOnce(t *testing.T) {
	const turns, seeds = 100, 20
	clean := lockStep(t, 0, 850, turns, 0) * turns
	lossy := int64(0)
	for seed := range uint64(seeds) {
		lossy += lockStep(t, 0.02, 850, turns, seed) * turns / seeds
	}
	t.Logf("%d turns take %d µs, and %d µs at a loss of 0.02", turns, clean/1000, lossy/1000)
	if most := 2*clean + initialRTT + 2*minProbe; lossy > most {
		t.Errorf("%d turns take %d µs at a loss of 0.02, want at most %d", turns, lossy/1000, most/1000)
	}
}

// TestAGapIsToldAtOnce: an echo that nobody waits for may wait, but not when it has something to tell that the sender
// must repair.
func TestAGapIsToldAtOnce(t *testing.T) {
	d := newDuo(t, Config{Piggyback: true, EchoEvery: 1000})
	n := 0
	d.drop = func(from int, b []byte) bool {
		if from == 0 && b[1]&^flagWaits == laneRequests {
			n++
		}
		return from == 0 && n == 5
	}
	d.write(0, 0, pattern(10*unit(1415), 1), 1)
	d.settle()
	if d.drop = nil; n < 11 {
		t.Errorf("%d datagrams were sent before any time has passed, want 10 and a repetition", n)
	}
	if got := len(d.of(0, Completed)); got != 1 {
		t.Errorf("%d writes are completed before any time has passed", got)
	}
}
