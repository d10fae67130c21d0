package builderunit

import (
	"testing"
)

// BenchmarkQuotaBuilder is the whole way of a small MEP through a builder unit, but for the network: 2 readout units, 1 stream of
// 128 bytes, packing 1. An operation is a MEP.
func BenchmarkQuotaBuilder(b *testing.B) {
	for _, v := range []struct {
		name   string
		verify Verify
	}{{"off", VerifyOff}, {"crc", VerifyCRC}} {
		b.Run(v.name, func(b *testing.B) {
			t := newTorrent(b, v.verify)
			for range 20 {
				t.turn()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				n += t.turn()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "MEPs/s")
		})
	}
}

// TestQuotaBuilderDoesNotAllocate holds that MEPs pass without an allocation.
func TestQuotaBuilderDoesNotAllocate(t *testing.T) {
	c := newTorrent(t, VerifyCRC)
	for range 20 {
		c.turn()
	}
	meps := 0
	n := testing.AllocsPerRun(100, func() { meps += c.turn() })
	if n > 0 {
		t.Errorf("%v allocations per call, %d MEPs in all", n, meps)
	}
}
