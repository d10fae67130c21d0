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

func (l *listeners) take(rank int, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.deaf, rank) {
		return
	}
	answer, ok, err := l.readers[rank].Take(bytes.Clone(b), func(uint64, Span) {})
	if err == nil && ok {
		err = l.f.unit.Message(rank, answer.Append(nil))
	}
	if err != nil {
		l.f.t.Error(err)
	}
}

func (l *listeners) heard(rank int) (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.readers[rank].Stats().Decided {
		n += d
	}
	return n
}

// Readout units are told every decision. One that stands still, one that is lost, and one that has ended hold up
// nobody, and what they were not told is counted by the reason.
func TestReadoutUnitsAreTold(t *testing.T) {
	const builders, first, deaf, lost, events = 1, 2, 3, 4, 1000
	l := &listeners{readers: map[int]*Reader{first: {}, deaf: {}, lost: {}}, deaf: []int{deaf}}
	l.f = newFarm(t, builders, UnitConfig{
		Core:     Config{Epoch: 5, Timeout: time.Minute, Depth: 3 * events},
		Readouts: []int{first, deaf, lost},
	})
	f := l.f
	f.hears = l.take
	for rank, r := range l.readers {
		r.Open(5)
		if rank != first { // the farm has it greeted
			f.unit.Greet(rank)
		}
	}
	f.senders[0].Judged(0, events, filter.Verdict{Decision: filter.Rejected}, 0)
	f.wait(func(s UnitStats) bool { return s.Told == 2*events })
	if l.heard(first) != events || l.heard(lost) != events {
		t.Errorf("%d and %d decisions were heard", l.heard(first), l.heard(lost))
	}
	f.unit.Lost(lost)
	f.senders[0].Judged(events, events, filter.Verdict{Decision: filter.Accepted}, 0)
	f.wait(func(s UnitStats) bool { return s.Told == 3*events })
	f.over(first, 0) // hears nothing more
	f.senders[0].Judged(2*events, events, filter.Verdict{Decision: filter.Accepted}, 0)
	f.wait(func(s UnitStats) bool { return s.Ended == events && s.Waiting == 3*events })
	answer := Message{Kind: KindHeard, Epoch: 5, Number: 1}
	must.OK(t, f.unit.Message(lost, answer.Append(nil))) // its word was on the way
	answer.Number = 1000
	if f.unit.Message(deaf, answer.Append(nil)) == nil {
		t.Error("a readout unit has heard more than it was told")
	}
	must.OK(t, f.senders[0].Flush(t.Context()))
	f.over(1, f.senders[0].Close())
	f.over(deaf, 0)
	f.unit.End(context.Background())
	must.OK(t, f.unit.Close())
	if s := f.unit.Stats(); s.TellStats != (TellStats{Told: 3 * events, Ended: 4 * events}) {
		t.Errorf("%+v", s.TellStats)
	}
}

// At the end nobody waits for a readout unit that stands still, nor for one that does not say it has ended.
func TestEndDoesNotWaitForAReader(t *testing.T) {
	l := &listeners{readers: map[int]*Reader{2: {}}, deaf: []int{2}}
	l.f = newFarm(t, 1, UnitConfig{Core: Config{Epoch: 5, Timeout: time.Minute}, Readouts: []int{2}})
	l.f.hears = l.take
	l.f.senders[0].Judged(0, 10, filter.Verdict{Decision: filter.Accepted}, 0)
	l.f.wait(func(s UnitStats) bool { return s.Waiting == 10 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.f.unit.End(ctx)
	if s := l.f.unit.Stats(); s.TellStats != (TellStats{Unheard: 10}) {
		t.Errorf("%+v", s.TellStats)
	}
}
