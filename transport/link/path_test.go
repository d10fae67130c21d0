package link

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/golden"
)

// A step of what is learnt of a path.
type step struct {
	at                int64
	large             uint64 // a full datagram leaves whole, as this transmission
	small, fragmented uint64 // such a one has arrived
	wantLarge         uint64
}

// series is a step n times, ten transmissions and some time apart.
func series(n int, apart int64, s step) (out []step) {
	later := func(stamp uint64, i int) uint64 {
		if stamp == 0 {
			return 0
		}
		return stamp + uint64(10*i)
	}
	for i := range n {
		out = append(out, step{
			at:         30 + apart*int64(i),
			large:      later(s.large, i),
			small:      later(s.small, i),
			fragmented: later(s.fragmented, i),
		})
	}
	return out
}

// TestBlackHoleDetection: what is held against a path, and what is not.
func TestBlackHoleDetection(t *testing.T) {
	const full, base, pause = 8940, 1168, 20
	hole := func(n int) []step { return series(n, 30, step{large: 1, small: 9}) }
	for _, tc := range []struct {
		name  string
		steps []step
		size  int
	}{
		{"nothing", nil, full},
		{"small ones alone prove nothing", series(5, 30, step{small: 9}), full},
		{"four signs", hole(4), full},
		{"five signs", hole(5), base},
		{"a full one arrives between", append(append(hole(4), step{at: 125, wantLarge: 38}), hole(9)[4:8]...), full},
		{"what is small overtakes", series(5, 1, step{large: 1, small: 9}), full},
		{"within the tolerance for reordering", series(5, 30, step{large: 1, small: 4}), full},
		{"in fragments they arrive", series(5, 30, step{large: 1, fragmented: 2}), base},
		{"found to carry them again", append(hole(5), step{at: 900, wantLarge: 60}), full},
	} {
		p, sent := newPath(full, base), uint64(0)
		for _, s := range tc.steps {
			if s.large > 0 {
				p.onLargeSent(s.large)
			}
			for _, got := range []struct {
				size       int
				fragmented bool
				stamp      uint64
			}{{base, false, s.small}, {full, true, s.fragmented}, {full, false, s.wantLarge}} {
				if got.stamp > 0 {
					p.onArrival(got.size, got.fragmented, got.stamp)
					sent = max(sent, got.stamp)
				}
			}
			p.detectBlackHole(s.at, sent, pause)
		}
		if p.currentSize != tc.size {
			t.Errorf("%s: whole datagrams have up to %d bytes, want %d", tc.name, p.currentSize, tc.size)
		}
	}
}

// TestTriesOfFullDatagrams: ever more rarely, and not never.
func TestTriesOfFullDatagrams(t *testing.T) {
	p := newPath(8940, 1168)
	p.currentSize, p.raiseInterval, p.raiseAt = 1168, initialRaiseInterval, initialRaiseInterval
	var at []int64
	for now := int64(0); now < 600*second; now += 100 * millisecond {
		if p.tryRaise(now) {
			at = append(at, now/millisecond)
		}
	}
	if want := "[500 1500 3500 7500 15500 31500 61500"; len(fmt.Sprint(at)) < len(want) ||
		fmt.Sprint(at)[:len(want)] != want {
		t.Errorf("tries at %v, want %v …", at, want)
	}
	if last := at[len(at)-1]; last < 560_000 {
		t.Errorf("the last of ten minutes is at %d ms", last)
	}
}

// narrow drops what is larger than a size, from the sender given or, if it is negative, from both.
func narrow(size, sender int) func(int, []byte) bool {
	return func(from int, b []byte) bool { return len(b) > size && (sender < 0 || from == sender) }
}

// TestPathThatShrinks: full datagrams vanish from some moment on, and the link goes on with smaller ones; when they
// pass again it goes back. What it wrote is placed once.
func TestPathThatShrinks(t *testing.T) {
	for _, full := range []int{1415, 1442, 8942, 32768} {
		for _, congestion := range []bool{false, true} {
			for _, window := range []int{8, 1, 100}[:Fewer(3)] {
				t.Run(fmt.Sprint(full, congestion, window), func(t *testing.T) { shrinks(t, full, window, congestion) })
			}
		}
	}
}

func shrinks(t *testing.T, full, window int, congestion bool) {
	const base = 1168
	d := newDuo(t, Config{
		MaxDatagram:       full,
		BaseDatagram:      base,
		Credit:            window,
		CongestionControl: congestion,
		PiggybackAcks:     congestion,
	})
	data := pattern(180_000, 1)
	pieces := []Piece{{Ref: d.ref[0], Data: data[:900]}, {Ref: d.ref[0], Data: data[:900]}}
	round := func(n int) {
		t.Helper()
		for e := range 2 {
			d.write(e, uint32(n), data[n:], uint64(n+1))
			d.core[e].WriteMany(pieces, uint64(n+1)<<32)
			d.core[e].Signal(data[:MaxSignal])
		}
		begin := d.now
		if !d.run(5 * second) {
			t.Fatalf("round %d is stuck: %+v", n, d.core[0].Stats())
		}
		if took := d.now - begin; took > 2*second {
			t.Errorf("round %d took %d ms", n, took/millisecond)
		}
		for e := range 2 {
			if !bytes.Equal(d.memory[e][shmem.PageSize+n:][:len(data)-n], data[n:]) {
				t.Fatalf("round %d: what was written differs", n)
			}
		}
	}
	round(0)
	d.drop = narrow(base, -1)
	for n := 1; n < 20; n++ {
		round(n)
	}
	for e, c := range d.core {
		if s := c.Stats(); s.PathMTUShrunk != 1 || s.PathMTUGrown != 0 || s.DatagramFragmentsSent == 0 ||
			c.recovery.path.currentSize != base {
			t.Errorf("end %d: shrunk %d times, grown %d times, %d fragments", e, s.PathMTUShrunk, s.PathMTUGrown,
				s.DatagramFragmentsSent)
		}
	}
	d.drop = nil
	d.now += maxRaiseInterval
	round(20)
	round(21)
	for e, c := range d.core {
		if s := c.Stats(); s.PathMTUGrown != 1 || c.recovery.path.currentSize != full {
			t.Errorf("end %d does not send full datagrams again: %+v", e, s)
		}
		s, r := c.Stats(), d.core[1-e].Stats()
		if r.DatagramsMalformed+r.DatagramsBeyondCredit+r.ChunksLate != 0 || r.ChunksPlaced != s.ChunksSent-s.ChunksResent {
			t.Errorf("end %d sent %+v, its peer had %+v", e, s, r)
		}
	}
	checkEachOnce(t, d, 22)
}

// checkEachOnce holds that each write of so many rounds was completed, and told to the peer, once.
func checkEachOnce(t *testing.T, d *duo, rounds int) {
	t.Helper()
	for e := range 2 {
		done, placed := map[uint64]int{}, map[uint64]int{}
		for _, ev := range d.eventsOf(e, EventCompleted) {
			done[ev.Cookie]++
		}
		for _, ev := range d.eventsOf(1-e, EventPlaced) {
			placed[ev.Imm]++
		}
		for n := range uint64(rounds) {
			if done[n+1] != 1 || placed[n+1] < 1 || done[(n+1)<<32] != 1 {
				t.Errorf("end %d: write %d was completed %d times and placed %d times", e, n, done[n+1], placed[n+1])
			}
		}
		if len(d.eventsOf(1-e, EventSignal)) != rounds {
			t.Errorf("end %d: %d of %d signals", e, len(d.eventsOf(1-e, EventSignal)), rounds)
		}
	}
}

// TestLossIsNoNarrowPath: datagrams that are lost whatever their size leave a link at full ones, or let it go back to
// them. Where half is lost, nearly all is sent again before it is heard of, and waits stay long: some minutes.
func TestLossIsNoNarrowPath(t *testing.T) {
	for _, loss := range []float64{0.02, 0.2, 0.5} {
		shrunk := 0
		for seed := range uint64(Fewer(20)) {
			rng := rand.New(rand.NewPCG(seed, 5))
			d := newDuo(t, Config{
				MaxDatagram:       8940,
				BaseDatagram:      1168,
				CongestionControl: true,
				PiggybackAcks:     true,
			})
			d.drop = func(int, []byte) bool { return rng.Float64() < loss }
			for i := range 20 {
				d.write(0, 0, pattern(200_000, 1), uint64(i))
			}
			if !d.run(1000 * second) {
				t.Fatalf("seed %d: stuck at a loss of %v: %+v", seed, loss, d.core[0].Stats())
			}
			shrunk += int(d.core[0].Stats().PathMTUShrunk)
		}
		if shrunk > 2 {
			t.Errorf("at a loss of %v the path was found narrow %d times in 20 runs", loss, shrunk)
		}
	}
}

// TestPartsOfTheGoldenDatagram: whatever the order of the fragments, they are the datagram; what comes twice is
// counted, and does nothing.
func TestPartsOfTheGoldenDatagram(t *testing.T) {
	datagram := golden.Hex(t, "write")
	fragment := func(i int) []byte {
		b := make([]byte, fragmentHeader, 100)
		putHeader(b, header{kind: kindFragment, view: 0x0203, seq: goldenSeq})
		putFragmentHeader(b[headerSize:], spaceRequests, i, 3, len(datagram))
		return append(append(b, datagram[17*i:17*(i+1)]...), make([]byte, 30)...) // as a carrier may fill it up
	}
	if got, want := fragment(1)[:fragmentHeader+17], golden.Hex(t, "part"); !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x", got, want)
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 1, 0, 2}, {0, 1, 2, 0, 1, 2}} {
		d := goldenDuo(t)
		for _, i := range order {
			d.deliver(1, fragment(i))
		}
		s := d.core[1].Stats()
		if len(d.eventsOf(1, EventPlaced)) != 1 || s.DatagramFragmentsReceived != uint64(len(order)) ||
			s.DatagramsDuplicate != uint64(len(order)-3) {
			t.Errorf("%v: %+v", order, s)
		}
		if got := d.memory[1][shmem.PageSize+16:][:7]; string(got) != "ringlet" {
			t.Errorf("%v: placed %q", order, got)
		}
	}
	d := goldenDuo(t) // what began to come in fragments comes whole
	d.deliver(1, fragment(0))
	d.deliver(1, datagram)
	d.deliver(1, fragment(1))
	if s := d.core[1].Stats(); len(d.eventsOf(1, EventPlaced)) != 1 || s.DatagramsDuplicate != 1 ||
		len(d.core[1].acks.recv[spaceRequests].fragments.freeBufs) != 1 {
		t.Errorf("%+v", s)
	}
	d = goldenDuo(t) // fragments of something else
	for i := range 3 {
		b := fragment(i)
		b[8] = spaceResponses
		if err := d.core[1].Receive(1, b); (err != nil) != (i == 2) {
			t.Errorf("fragment %d: %v", i, err)
		}
	}
}
