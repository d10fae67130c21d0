package decision

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"ringlet/filter"
	"ringlet/testkit/must"
)

// listeners are readout units, by rank, that hear decisions.
type listeners struct {
	f *farm

	mu      sync.Mutex
	readers map[int]*Reader
	deaf    []int // ranks that stand still
}

func (l *listeners) receive(rank int, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.deaf, rank) {
		return
	}
	answer, ok, err := l.readers[rank].Receive(bytes.Clone(b), func(uint64, Span) {})
	if err == nil && ok {
		err = l.f.unit.HandleMessage(rank, answer.Append(nil))
	}
	if err != nil {
		l.f.t.Error(err)
	}
}

func (l *listeners) received(rank int) (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.readers[rank].Stats().Decided {
		n += d
	}
	return n
}

// Readout units are told every decision. One that stands still, one that is lost, and one that has ended hold up
// nobody, and what they were not told is counted by the reason.
func TestReadoutUnitsReceiveDecisions(t *testing.T) {
	const builders, first, deaf, lost, events = 1, 2, 3, 4, 1000
	l := &listeners{readers: map[int]*Reader{first: {}, deaf: {}, lost: {}}, deaf: []int{deaf}}
	l.f = newFarm(t, builders, UnitConfig{
		Core:         Config{Epoch: 5, Timeout: time.Minute, MaxPending: 3 * events},
		ReadoutRanks: []int{first, deaf, lost},
	})
	f := l.f
	f.onDecisions = l.receive
	for rank, r := range l.readers {
		r.Open(5)
		if rank != first { // the farm has it greeted
			f.unit.Announce(rank)
		}
	}
	f.senders[0].AddVerdict(0, events, filter.Verdict{Decision: filter.Rejected}, 0)
	f.wait(func(s UnitStats) bool { return s.Delivered == 2*events })
	if l.received(first) != events || l.received(lost) != events {
		t.Errorf("%d and %d decisions were heard", l.received(first), l.received(lost))
	}
	f.unit.RankLost(lost)
	f.senders[0].AddVerdict(events, events, filter.Verdict{Decision: filter.Accepted}, 0)
	f.wait(func(s UnitStats) bool { return s.Delivered == 3*events })
	f.over(first, 0) // hears nothing more
	f.senders[0].AddVerdict(2*events, events, filter.Verdict{Decision: filter.Accepted}, 0)
	f.wait(func(s UnitStats) bool { return s.AfterReaderEnd == events && s.Undelivered == 3*events })
	answer := Message{Kind: KindAck, Epoch: 5, Number: 1}
	must.OK(t, f.unit.HandleMessage(lost, answer.Append(nil))) // its word was on the way
	answer.Number = 1000
	if f.unit.HandleMessage(deaf, answer.Append(nil)) == nil {
		t.Error("a readout unit has heard more than it was told")
	}
	must.OK(t, f.senders[0].Flush(t.Context()))
	f.over(1, f.senders[0].Close())
	f.over(deaf, 0)
	f.unit.FinishDecisions(context.Background())
	must.OK(t, f.unit.Close())
	if s := f.unit.Stats(); s.DeliveryStats != (DeliveryStats{Delivered: 3 * events, AfterReaderEnd: 4 * events}) {
		t.Errorf("%+v", s.DeliveryStats)
	}
}

// At the end nobody waits for a readout unit that stands still, nor for one that does not say it has ended.
func TestEndDoesNotWaitForAReader(t *testing.T) {
	l := &listeners{readers: map[int]*Reader{2: {}}, deaf: []int{2}}
	l.f = newFarm(t, 1, UnitConfig{Core: Config{Epoch: 5, Timeout: time.Minute}, ReadoutRanks: []int{2}})
	l.f.onDecisions = l.receive
	l.f.senders[0].AddVerdict(0, 10, filter.Verdict{Decision: filter.Accepted}, 0)
	l.f.wait(func(s UnitStats) bool { return s.Undelivered == 10 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.f.unit.FinishDecisions(ctx)
	if s := l.f.unit.Stats(); s.DeliveryStats != (DeliveryStats{Unacked: 10}) {
		t.Errorf("%+v", s.DeliveryStats)
	}
}
