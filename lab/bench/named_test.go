package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ringlet/testkit/cases"
	"ringlet/testkit/must"
)

// TestNamed: each measurement that a sweep may name gives its figures, and nothing is lost or wrong in any of them.
func TestNamed(t *testing.T) {
	has := map[string][]string{
		"integrity":      {"tries", "missed_ppm"},
		"patterns":       {"one-way 512.mbyte_per_s", "three-to-one 4096.slowest_mbyte_per_s"},
		"descriptors":    {"1 128.hz", "16 256.hz", "endless 1024.hz"},
		"triggers":       {"hz", "triggers"},
		"decisions":      {"rate_hz", "by_result_share", "events"},
		"sizes":          {"realistic.fragment_b", "constant.event_kb", "realistic.rich_share"},
		"interrupt":      {"p50_us", "interrupts"},
		"interrupt busy": {"p50_us", "mbyte_per_s"},
		"latency":        {"1us.trip_us", "5us.network_us", "2us.software_us"},
		"damaged header": {"damaged", "counted"},
		"damaged body":   {"damaged", "counted"},
		"write buffers":  {"most_outstanding", "stores", "joined"},
	}
	for name, measure := range cases.Select(t, measurementsByName) {
		var f map[string]float64
		isZero := func(figure string) bool { return f[figure] <= 0 }
		for d := 100 * time.Millisecond; d <= 10*time.Second; d *= 10 { // on a busy machine little happens in a short time
			var err error
			f, err = measure(t.Context(), nodesTestConfig(t, "quic"), d)
			must.OK(t, err)
			if !slices.ContainsFunc(has[name], isZero) {
				break
			}
		}
		if i := slices.IndexFunc(has[name], isZero); i >= 0 {
			t.Errorf("%s: %s is %v", name, has[name][i], f[has[name][i]])
		}
		for _, figure := range []string{
			"lost", "wrong", "lost_writes", "wrong_words", "damaged_words", "undecided", "odd",
		} {
			if f[figure] != 0 {
				t.Errorf("%s: %s is %v", name, figure, f[figure])
			}
		}
	}
	nothingMapped(t)
}

// TestBetween: a name may be followed by how long the measurement takes.
func TestBetween(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"decisions":          namedDuration,
		"decisions 5m":       5 * time.Minute,
		"interrupt busy":     namedDuration,
		"interrupt busy 10s": 10 * time.Second,
		"decisions 5":        0,
		"decisions 1ms":      0,
		"decisions 100h":     0,
		"decision 5m":        0,
		" 5m":                0,
		"5m":                 0,
		"":                   0,
	} {
		if measure, d := lookupBetween(name); (measure != nil) != (want > 0) || measure != nil && d != want {
			t.Errorf("%q: %v, %v", name, measure != nil, d)
		}
		if IsBetweenNodes(name) != (want > 0) {
			t.Errorf("%q", name)
		}
	}
}

// TestSizes: the generated sizes are those of LHCb-EB §V.A within half a per cent.
func TestSizes(t *testing.T) {
	f, err := measureSizes(t.Context(), NodesConfig{}, 0)
	must.OK(t, err)
	for name, most := range map[string]float64{
		"realistic.fragment_off_b": 0.7,
		"realistic.event_off_kb":   0.7,
		"realistic.rich_off":       0.005,
		"realistic.calo_off":       0.005,
		"realistic.scifi_off":      0.005,
		"constant.fragment_off_b":  0,
		"constant.event_off_kb":    0.7,
	} {
		if v, ok := f[name]; !ok || v > most {
			t.Errorf("%s is %v, more than %v", name, v, most)
		}
	}
}

// TestDamage turns over one bit, where it was asked for, and leaves the packet one of its protocol.
func TestDamage(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		for _, where := range []string{damageHeader, damageBody} {
			var was, is [200]byte
			was[0], was[1] = 0x43, 0x80
			is = was
			flipBit(is[:], where, draw)
			at, bits := -1, 0
			for i := range is {
				for d := is[i] ^ was[i]; d != 0; d &= d - 1 {
					at, bits = i, bits+1
				}
			}
			if bits != 1 || (at < packetHeader) != (where == damageHeader) || !isSessionPacket(is[:]) {
				t.Fatalf("%s: %d bits, the last in byte %d", where, bits, at)
			}
		}
	}
}
