package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"ringlet/testkit/must"
)

// TestNamed: each measurement that a sweep may name gives its figures, and nothing is lost or wrong in any of them.
func TestNamed(t *testing.T) {
	has := map[string][]string{
		"integrity":      {"tries", "missed_ppm"},
		"patterns":       {"one-way 512.mbyte_per_s", "three-to-one 4096.slowest_mbyte_per_s"},
		"descriptors":    {"hz", "triggers"},
		"triggers":       {"hz", "triggers"},
		"interrupt":      {"p50_us", "interrupts"},
		"interrupt busy": {"p50_us", "mbyte_per_s"},
		"latency":        {"1us.trip_us", "5us.network_us", "2us.software_us"},
		"damaged header": {"damaged", "counted"},
		"damaged body":   {"damaged", "counted"},
	}
	for name, measure := range named {
		f, err := measure(t.Context(), nodesOf(t, "quic"), 300*time.Millisecond)
		must.OK(t, err)
		for _, figure := range has[name] {
			if f[figure] <= 0 {
				t.Errorf("%s: %s is %v", name, figure, f[figure])
			}
		}
		for _, figure := range []string{"lost", "wrong", "lost_writes", "wrong_words", "damaged_words"} {
			if f[figure] != 0 {
				t.Errorf("%s: %s is %v", name, figure, f[figure])
			}
		}
	}
	nothingMapped(t)
}

// TestDamage turns over one bit, where it was asked for, and leaves the packet one of its protocol.
func TestDamage(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		for _, where := range []string{damageHeader, damageBody} {
			var was, is [200]byte
			was[0], was[1] = 0x43, 0x80
			is = was
			damage(is[:], where, draw)
			at, bits := -1, 0
			for i := range is {
				for d := is[i] ^ was[i]; d != 0; d &= d - 1 {
					at, bits = i, bits+1
				}
			}
			if bits != 1 || (at < packetHeader) != (where == damageHeader) || !ofSession(is[:]) {
				t.Fatalf("%s: %d bits, the last in byte %d", where, bits, at)
			}
		}
	}
}
