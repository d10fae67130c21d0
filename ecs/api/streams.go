package api

import (
	"fmt"
	"time"

	"google.golang.org/grpc"

	"ringlet/ecs/journal"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// Times between two snapshots of a stream, in milliseconds.
const (
	defaultInterval = 500
	minInterval     = 50
	maxInterval     = 60_000
)

// Watch streams events until the client or the server ends the stream.
func (s *service) Watch(req *ecsv1.WatchRequest, out grpc.ServerStreamingServer[ecsv1.Event]) error {
	after := req.GetAfter()
	switch after {
	case 0:
		after = s.journal.LastNumber()
	case 1:
		after = 0 // all kept events, whatever their numbers
	}
	events := s.journal.Subscribe(out.Context(), after)
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	for event := range events {
		if event.GetKind() == journal.KindLog && !req.GetLogs() {
			continue
		}
		if err := out.Send(event); err != nil {
			return err
		}
	}
	return out.Context().Err()
}

// WatchSnapshots streams snapshots, the first at once.
func (s *service) WatchSnapshots(req *ecsv1.WatchSnapshotsRequest,
	out grpc.ServerStreamingServer[ecsv1.Snapshot]) error {
	interval := req.GetIntervalMs()
	switch {
	case interval == 0:
		interval = defaultInterval
	case interval < minInterval || interval > maxInterval:
		return &ArgumentError{Name: "interval_ms", Why: fmt.Sprintf("%d is not from %d to %d", interval, minInterval,
			maxInterval)}
	}
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	tick := time.NewTicker(time.Duration(interval) * time.Millisecond)
	defer tick.Stop()
	for {
		if err := out.Send(s.backend.Snapshot(0)); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

// Sample streams samples of a node's counters; see Backend.Sample.
func (s *service) Sample(q *samplev1.Question, out grpc.ServerStreamingServer[samplev1.Samples]) error {
	return s.backend.Sample(out.Context(), q, sendWithHeader(out))
}

// Tap streams a sample of the built events until the client or the server ends the stream.
func (s *service) Tap(req *tapv1.Selection, out grpc.ServerStreamingServer[tapv1.Samples]) error {
	return s.backend.Tap(out.Context(), req, sendWithHeader(out))
}

// sendWithHeader returns a function that sends messages, and the header before the first one: an error of the request
// then comes before the header.
func sendWithHeader[M any](out grpc.ServerStreamingServer[M]) func(*M) error {
	begun := false
	return func(m *M) error {
		if !begun {
			begun = true
			if err := out.SendHeader(nil); err != nil {
				return err
			}
		}
		return out.Send(m)
	}
}
