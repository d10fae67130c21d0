package builderunit

import (
	"testing"

	"ringlet/event"
	"ringlet/testkit/patiently"
)

// BenchmarkPreGrantedBuilder is the whole way of a small MEP through a builder unit, but for the network: 2 readout
// units, 1 stream of 128 bytes, packing 1. An operation is a MEP.
func BenchmarkPreGrantedBuilder(b *testing.B) {
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

// TestPreGrantedBuilderDoesNotAllocate holds that MEPs pass without an allocation, and are good ones.
func TestPreGrantedBuilderDoesNotAllocate(t *testing.T) {
	patiently.Watch(t) // a timer for each wait would be an allocation
	c := newTorrent(t, VerifyCRC)
	for range 20 {
		c.turn()
	}
	meps := 0
	n := testing.AllocsPerRun(100, func() { meps += c.turn() })
	if n > 0 {
		t.Errorf("%v allocations per call, %d MEPs in all", n, meps)
	}
	slots := patiently.Receive(t, c.free)
	c.free <- slots
	for _, slot := range slots {
		m, err := event.ParseMEP(c.slots.Bytes(int(slot)))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Verify(); err != nil || m.NumMFPs() != 2 || m.Offset(1)+paddedBytes(uint32(event.MaxMFPSize(1, fragment,
			0))) != len(m.Bytes()) {
			t.Fatalf("slot %d: %d MFPs in %d bytes, the second at %d: %v", slot, m.NumMFPs(), len(m.Bytes()), m.Offset(1), err)
		}
	}
}
