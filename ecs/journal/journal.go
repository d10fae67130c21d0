package journal

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// kindGap is the kind of the event in place of those that a reader missed.
const kindGap = "gap"

// KindLog is the kind of log lines.
const KindLog = "log"

// batchSize is how many events a subscription reads at a time: it holds at most these for a slow reader.
const batchSize = 64

// Journal keeps the last events. Methods may be called from any goroutine.
type Journal struct {
	// Immutable after New.
	firstNumber uint64 // number of the first event

	mu         sync.Mutex
	eventRing  []*ecsv1.Event // guarded by mu; event n is at index n modulo the size
	lastNumber uint64         // guarded by mu; number of the newest event, or firstNumber-1
	newEvent   chan struct{}  // guarded by mu; closed and replaced when an event is added
}

// New makes a journal that keeps size events, at least one. The first event gets the number after+1: give 0, or a
// number at least as high as all that earlier journals of the partition have given.
func New(size int, after uint64) *Journal {
	return &Journal{
		eventRing:   make([]*ecsv1.Event, max(size, 1)),
		firstNumber: after + 1,
		lastNumber:  after,
		newEvent:    make(chan struct{}),
	}
}

// Add keeps an event and returns its number. It sets the event's number, and the time if there is none.
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

// LastNumber is the number of the newest event: a subscription after it gets new events only.
func (j *Journal) LastNumber() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastNumber
}

// EventsSince returns the kept events after a number, oldest first; after 0, all.
func (j *Journal) EventsSince(after uint64) []*ecsv1.Event {
	events, _ := j.read(after, len(j.eventRing)+1)
	return events
}

// Subscribe delivers the kept events after a number, and then each new one, until the context ends. Then it closes the
// channel.
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

// read returns at most limit events after a number, with an event for a gap before them, and a channel that is closed
// when an event is added.
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

// gapText says what a reader misses that has read up to the event after, if oldest is the oldest kept event; empty if
// it misses nothing.
func (j *Journal) gapText(after, oldest uint64) string {
	switch {
	case after > j.lastNumber || 0 < after && after < j.firstNumber-1:
		return fmt.Sprintf("event %d is of an earlier run control; later events of that control are no longer remembered, "+
			"nor are %d events of this one", after, oldest-j.firstNumber)
	case max(after, j.firstNumber-1) < oldest-1:
		return fmt.Sprintf("%d events are no longer remembered: the journal holds %d", oldest-1-max(after, j.firstNumber-1),
			len(j.eventRing))
	}
	return ""
}
