package builder

import (
	"testing"

	"ringlet/lab/topology"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/tagnet/core"
	"ringlet/testkit/must"
)

// hop is the latency of a port.
const hop = 300 * sim.Nanosecond

// idleModel is hosts that take no time.
type idleModel struct{ s *sim.Sim }

func (m idleModel) PartSize(int, uint64) int                   { return 1 }
func (m idleModel) PrepareDoneAt(int) sim.Time                 { return m.s.Now() }
func (m idleModel) SendDoneAt(int, int, int) sim.Time          { return m.s.Now() }
func (m idleModel) ReceiveDoneAt(int, int, int, bool) sim.Time { return m.s.Now() }
func (m idleModel) MessageDoneAt(int, MessageKind) sim.Time    { return m.s.Now() }
func (m idleModel) ResentBytes(sim.Time, int, int32) int64     { return 0 }
func (m idleModel) Built(int, core.Feedback)                   {}

// transfer is what a readout unit sends to a builder unit.
type transfer struct{ to, bytes int }

// alone plays flows without units, and returns when the last byte of the first of them has arrived.
func alone(t *testing.T, nodes int, flows ...transfer) (at sim.Time) {
	t.Helper()
	s := sim.New(1)
	var all []int
	for i := range nodes {
		all = append(all, i)
	}
	w, err := New(s, &Config{
		Discipline:      &readoutunit.Disciplines[0],
		Seats:           readoutunit.SeatsInOrder(nodes, nodes),
		RUs:             all,
		BUs:             all,
		Slots:           1,
		Packing:         1,
		Hosts:           nodes,
		Topology:        topology.FatTree(nodes, 4, 2, 2),
		SegmentBytes:    16 << 10,
		WireBytes:       func(data int) int32 { return int32(data) },
		SelfThroughCard: true,
		Port: component.PortConfig{
			PerByte:     40,
			Latency:     hop,
			BufferBytes: 32 << 10,
			CutThrough:  true,
		},
	}, idleModel{s})
	must.OK(t, err)
	w.onPartPlaced = func(_ *ru, place int64, _ *bu) {
		if place == 0 {
			at = s.Now()
		}
	}
	for from, f := range flows {
		if f.bytes > 0 {
			w.send(w.rus[from], &flow{
				place:       uint64(from),
				destination: w.bus[f.to],
				bytesLeft:   f.bytes,
			})
		}
	}
	s.Run(t.Context(), sim.Limits{})
	return at
}

// megabyte is how long one takes at the port's rate.
const megabyte = (1 << 20) * 40 * sim.Picosecond

// TestTwoSendersShareAPort: what two nodes send to a third at the same time takes twice as long, wherever they are.
func TestTwoSendersShareAPort(t *testing.T) {
	none := transfer{}
	for _, flows := range [][]transfer{
		{{to: 3, bytes: 1 << 20}, {to: 3, bytes: 1 << 20}},                         // from the same leaf
		{{to: 3, bytes: 1 << 20}, none, none, none, {to: 3, bytes: 1 << 20}},       // one from the other
		{{to: 7, bytes: 1 << 20}, {to: 7, bytes: 1 << 20}},                         // both over one link
		{{to: 4, bytes: 1 << 20}, none, none, none, none, {to: 4, bytes: 1 << 20}}, // one from there
	} {
		if got := alone(t, 8, flows...); got < 2*megabyte*98/100 || got > 2*megabyte*102/100 {
			t.Errorf("%v: took %v, two megabytes take %v", flows, got, 2*megabyte)
		}
	}
}

// TestFlowsOfAPhaseShareNoLink: none holds another up.
func TestFlowsOfAPhaseShareNoLink(t *testing.T) {
	for phase := range 8 {
		var flows []transfer
		for i := range 8 {
			flows = append(flows, transfer{to: (i + phase) % 8, bytes: 1 << 20})
		}
		if got := alone(t, 8, flows...); got > megabyte+4*hop {
			t.Errorf("phase %d: took %v, a megabyte takes %v and its hops", phase, got, megabyte)
		}
	}
}

// TestSharedLinkHoldsUpAVictim: who shares a link with a flow to a busy port has no more of it than that flow, though
// its own port is idle.
func TestSharedLinkHoldsUpAVictim(t *testing.T) {
	busy := transfer{to: 4, bytes: 4 << 20}
	victim := transfer{to: 8, bytes: 1 << 20} // by the same link up as what goes to node 4
	got := alone(t, 12, victim, busy, transfer{}, transfer{}, transfer{}, busy, busy, busy)
	// Four flows share the port of node 4, so each has a quarter of it, and the victim as much.
	if got < 4*megabyte*90/100 || got > 4*megabyte*110/100 {
		t.Errorf("took %v, four megabytes take %v", got, 4*megabyte)
	}
}
