package live

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestACounterThatBeganAnewIsNamed with its bits and what to add: of a source that keeps the order, and of one that
// does not. It stays so for what comes behind, however far that counter has got.
func TestACounterThatBeganAnewIsNamed(t *testing.T) {
	for bits, add := range map[uint8]string{
		8: "256", 12: "4096", 15: "32768", 16: "65536", 24: "16777216", 31: "2147483648", 32: "4294967296",
		48: "281474976710656",
	} {
		want := "; this looks like a counter of " + strconv.Itoa(int(bits)) + " bits that began anew at 0: put ?wrap=" +
			strconv.Itoa(int(bits)) + " behind the address of the input, or let the front-end count in 64 bits, adding " + add +
			" each time"
		for _, unordered := range []bool{false, true} {
			x := newRun(rules(), unordered)
			last := uint64(1)<<bits - 1
			for e := last - 5; e <= last; e++ {
				x.offer(0, e, e)
			}
			x.pause(10 * time.Second) // they are built
			fault := FaultBackwards
			if unordered {
				fault = FaultLate
			}
			for _, e := range []uint64{0, 1, last / 2} {
				_, err := x.m.Offer(0, FragmentRef{Event: e}, x.now)
				var wrong *FragmentError
				if !errors.As(err, &wrong) || wrong.Fault != fault || wrong.CounterBits != bits ||
					!strings.HasSuffix(err.Error(), want) {
					t.Errorf("%d bits, unordered %v, event %d: %v", bits, unordered, e, err)
				}
			}
		}
	}
}

// TestNotEveryLowNumberIsACounterThatBeganAnew: how far before its end the last number may be, and how far behind 0 the
// next one, when some were lost between them.
func TestNotEveryLowNumberIsACounterThatBeganAnew(t *testing.T) {
	for _, c := range []struct {
		last, e uint64
		want    uint8
	}{
		{1<<16 - 1, 0, 16}, {1<<16 - 1024, 1023, 16}, {1<<16 - 1025, 0, 0}, {1<<16 - 1, 1024, 0},
		{1<<16 + 1, 0, 0},    // it has gone beyond
		{255, 15, 8},         // a small counter has less room: a sixteenth
		{239, 0, 0},          // the same
		{255, 16, 0},         // the same
		{1<<32 - 1, 7, 32},   // and not 31
		{1<<31 - 1, 7, 31},   // and not 32
		{1 << 40, 0, 0},      // no counter has so many bits
		{1<<64 - 2, 0, 0},    // there is none above this one
		{20, 0, 0},           // a front-end that was started anew
		{1<<48 - 3, 900, 48}, // the largest
	} {
		if got := counterBits(c.last, c.e); got != c.want {
			t.Errorf("from %d to %d: %d bits, want %d", c.last, c.e, got, c.want)
		}
	}
}
