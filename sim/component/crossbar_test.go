package component_test

import (
	"context"
	"testing"

	"ringlet/sim"
	"ringlet/sim/component"
)

// word is a cycle of the link: 32 bits at 78.125 MHz (NIC-crossbar §3.2.1).
const word = 12800 * sim.Picosecond

// crossbar is the switch of NIC-crossbar §2.2: 8×8, cross-points of 2 kB, 5 cycles through (NIC-crossbar §3.2.3), one
// word of start of packet (NIC-crossbar §3.1.6.1), credits of 32 words (NIC-crossbar §3.3.1) that take two words.
func crossbar(s *sim.Sim) *component.Crossbar {
	return component.NewCrossbar(s, component.CrossbarConfig{
		Ports:           8,
		CrossPointBytes: 2048,
		PerByte:         word / 4,
		StartBytes:      4,
		Latency:         5 * word,
		BytesPerCredit:  128,
		CreditSize:      8,
		CreditDelay:     3 * word,
	})
}

// flow keeps the sender of a port busy with packets of 512 B, of which 496 are payload (NIC-crossbar §3.2.1).
type flow struct {
	x        *component.Crossbar
	s        *sim.Sim
	src, dst int32
	received uint64
}

func (f *flow) send() {
	f.x.Receive(&component.Packet{Src: f.src, Dst: f.dst, Size: 512, Receiver: f})
}

func (f *flow) Receive(p *component.Packet) {
	f.received++
	f.x.Receive(p)
}

// rate is the payload in MB/s of 10⁶ bytes.
func (f *flow) rate() float64 { return sim.PerSecond(f.received*496, f.s.Now()) / 1e6 }

func flows(t *testing.T, pairs ...[2]int32) (*component.Crossbar, []*flow) {
	s := sim.New(1)
	x := crossbar(s)
	var all []*flow
	for _, pair := range pairs {
		f := &flow{x: x, s: s, src: pair[0], dst: pair[1]}
		all = append(all, f)
		for range 12 {
			f.send()
		}
	}
	s.Run(context.Background(), sim.Limits{Until: 10 * sim.Millisecond})
	for _, pair := range pairs {
		if held := x.PeakBytes(int(pair[0]), int(pair[1])); held > 2048 {
			t.Errorf("cross-point %v held %d bytes", pair, held)
		}
	}
	return x, all
}

// TestCrossbarOneWay (F77, F82): 4-byte words at 78.125 MHz carry 496 of 516 bytes; the sender never waits for credits.
func TestCrossbarOneWay(t *testing.T) {
	x, f := flows(t, [2]int32{0, 1})
	near(t, "one way, MB/s", f[0].rate(), 312.5*496/516, 0.002)
	near(t, "use of the link", x.Link(1).Busy.Mean(10*sim.Millisecond), 1, 0.001)
	if x.CreditWait(0) > 0 {
		t.Errorf("the sender waited %v for credits", x.CreditWait(0))
	}
}

// TestCrossbarToItself (F78): credits of the same port's input go before its packets: four of 8 B for each.
func TestCrossbarToItself(t *testing.T) {
	_, f := flows(t, [2]int32{2, 2})
	near(t, "to itself, MB/s", f[0].rate(), 312.5*496/548, 0.01)
}

// TestCrossbarThreeToOne (F79): the output takes its cross-points in turn.
func TestCrossbarThreeToOne(t *testing.T) {
	_, f := flows(t, [2]int32{0, 3}, [2]int32{1, 3}, [2]int32{2, 3})
	for _, one := range f {
		near(t, "three to one, MB/s", one.rate(), 312.5*496/516/3, 0.01)
	}
}
