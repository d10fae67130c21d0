package journal

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// kindGap is the kind of the event that stands for those that were missed.
const kindGap = "gap"

// KindLog is the kind of log lines.
const KindLog = "log"

// batchSize is how many events a subscription takes out of the journal at a time; no more than these are held for a
// reader that is slow.
const batchSize = 64

// Journal keeps the last events. Methods may be called from any goroutine.
type Journal struct {
	// Immutable after New.
	firstNumber uint64 // number of the first event

	mu         sync.Mutex
	eventRing  []*ecsv1.Event // guarded by mu; event n lies at n modulo its size
	lastNumber uint64         // guarded by mu; number of the newest event, first-1 before there is one
	newEvent   chan struct{}  // guarded by mu; closed, and another one put in its place, when there is a new event
}

// New makes a journal that remembers so many events, at least one. Its numbers follow the given one: 0, or one at least
// as high as any that an earlier journal of the partition gave.
func New(size int, after uint64) *Journal {
	return &Journal{
		eventRing:   make([]*ecsv1.Event, max(size, 1)),
		firstNumber: after + 1,
		lastNumber:  after,
		newEvent:    make(chan struct{}),
	}
}

// Add takes an event, gives it its number, and its time if it has none. It returns the number.
func (j *Journal) Add(e *ecsv1.Event) uint64 {
	if e.At == nil {
		e.At = timestamppb.Now()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lastNumber++
	e.Number = j.lastNumber
	j.eventRing[j.lastNumber%uint64(len(j.eventRing))] = e
	close(j.newEvent)
	j.newEvent = make(chan struct{})
	return e.Number
}

// LastNumber is the number of the newest event: a subscription after it has new ones only.
func (j *Journal) LastNumber() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastNumber
}

// EventsSince gives the events after a number, oldest first; after 0, all that are remembered.
func (j *Journal) EventsSince(after uint64) []*ecsv1.Event {
	events, _ := j.read(after, len(j.eventRing)+1)
	return events
}

// Subscribe gives the events after a number, and from then on each as it comes, until the context is done. The channel
// is closed then.
func (j *Journal) Subscribe(ctx context.Context, after uint64) <-chan *ecsv1.Event {
	out := make(chan *ecsv1.Event)
	go func() {
		defer close(out)
		for {
			events, more := j.read(after, batchSize)
			for _, e := range events {
				select {
				case out <- e:
					after = e.Number
				case <-ctx.Done():
					return
				}
			}
			if len(events) > 0 {
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// read gives at most limit events after a number, with one for the gap before them, and what is closed when there are
// more.
func (j *Journal) read(after uint64, limit int) ([]*ecsv1.Event, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest := j.firstNumber
	if size := uint64(len(j.eventRing)); j.lastNumber-j.firstNumber+1 > size {
		oldest = j.lastNumber - size + 1
	}
	var out []*ecsv1.Event
	if text := j.gapText(after, oldest); text != "" {
		out = append(out, &ecsv1.Event{
			Number:    oldest - 1,
			At:        timestamppb.Now(),
			Kind:      kindGap,
			Component: "journal",
			Text:      text,
			Severity:  ecsv1.Severity_SEVERITY_WARNING,
		})
		after = oldest - 1
	}
	for n := max(after+1, oldest); n <= j.lastNumber && len(out) < limit; n++ {
		out = append(out, j.eventRing[n%uint64(len(j.eventRing))])
	}
	return out, j.newEvent
}

// gapText says what a reader misses who has read up to a number, where the oldest event is another; nothing if there is
// none.
func (j *Journal) gapText(after, oldest uint64) string {
	switch {
	case after > j.lastNumber || 0 < after && after < j.firstNumber-1:
		return fmt.Sprintf("event %d is of an earlier run control; what came after it there is not remembered, nor are %d "+
			"events of this one", after, oldest-j.firstNumber)
	case max(after, j.firstNumber-1) < oldest-1:
		return fmt.Sprintf("%d events are no longer remembered: the journal holds %d", oldest-1-max(after, j.firstNumber-1),
			len(j.eventRing))
	}
	return ""
}
