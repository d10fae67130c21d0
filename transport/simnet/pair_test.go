package simnet_test

import (
	"testing"
	"time"

	"ringlet/transport/simnet"
)

// sender is a machine that has so many datagrams to send, and counts those that come.
type sender struct{ more, got int }

func (m *sender) Next(_ int64, buf []byte) int {
	if m.more == 0 {
		return 0
	}
	m.more--
	return copy(buf, "x")
}
func (m *sender) Receive(int64, []byte) error { m.got++; return nil }
func (m *sender) EndBatch()                   {}
func (m *sender) Deadline() int64             { return 0 }
func (m *sender) Tick(int64)                  {}
func (m *sender) NextDue() bool               { return m.more > 0 }

// TestPairLosesAndReordersAsAsked: whoever owns the ends, what is sent arrives or is counted as lost, and the same seed
// gives the same run.
func TestPairLosesAndReordersAsAsked(t *testing.T) {
	for _, shell := range []simnet.SendMode{simnet.Eager, simnet.Inline, simnet.Pumped} {
		var runs [2]simnet.Pair
		for i := range runs {
			a, b := &sender{more: 1000}, &sender{}
			p := simnet.NewPair(a, b, 100, simnet.Faults{Loss: 0.2, Reorder: 0.5, Delay: time.Millisecond}, 3)
			p.SetSendModes(shell, shell)
			p.ShouldLose = func(int, []byte) bool { return a.more == 500 }
			p.Wake(0)
			p.Run(time.Minute, func() bool { return false })
			if p.Sent[0] != 1000 || p.Delivered[0]+p.Lost[0] != 1000 || b.got != p.Delivered[0] || p.EmptySends != [2]int{} {
				t.Errorf("shell %d: %d sent, %d delivered, %d lost, %d taken", shell, p.Sent[0], p.Delivered[0], p.Lost[0], b.got)
			}
			if p.Lost[0] < 150 || p.Lost[0] > 250 || p.Reordered[0] == 0 {
				t.Errorf("shell %d: %d lost, %d overtaken", shell, p.Lost[0], p.Reordered[0])
			}
			runs[i].Lost, runs[i].Reordered = p.Lost, p.Reordered
		}
		if runs[0].Lost != runs[1].Lost || runs[0].Reordered != runs[1].Reordered {
			t.Errorf("shell %d: the same seed lost %v and %v", shell, runs[0].Lost, runs[1].Lost)
		}
	}
}
