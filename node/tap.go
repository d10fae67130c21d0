package node

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/builderunit/tap"
	"ringlet/event/selection"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

const (
	// tapSendInterval is how often the events for a viewer are sent, together: a message costs a run's processors more
	// than the events in it. With the same interval in the run control, a viewer sees an event within a second.
	tapSendInterval = 250 * time.Millisecond
	// maxTapMessageBytes is about the most that one message has.
	maxTapMessageBytes = 1 << 20
	// tapQuietInterval is after how long the counts are sent without events.
	tapQuietInterval = time.Second
)

// Tap streams a sample of the events that this node builds to the control, which checks the rights of its user. The
// stream goes on from run to run.
func (s *service) Tap(req *nodev1.TapRequest, out nodev1.Node_TapServer) error {
	if err := s.node.access.admitAnyTerm(out.Context(), "Tap"); err != nil {
		return err
	}
	sel, err := selection.Parse(SpecOf(req.GetSelection()))
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	v, err := s.node.tap.OpenViewer(sel, time.Now())
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer v.Close()
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	tick := time.NewTicker(tapSendInterval)
	defer tick.Stop()
	var events []selection.Event
	sent := time.Now()
	for {
		select {
		case <-out.Context().Done():
			return nil
		case <-tick.C:
		}
		for {
			events = v.AppendEvents(events[:0], maxTapMessageBytes)
			if len(events) == 0 && time.Since(sent) < tapQuietInterval {
				break
			}
			sent = time.Now()
			if err := out.Send(samplesMessage(s.node.cfg.Name, events, v.Counts())); err != nil {
				return err
			}
			clear(events)
		}
	}
}

// SpecOf decodes a selection.
func SpecOf(m *tapv1.Selection) selection.Spec {
	return selection.Spec{
		Share:   m.GetShare(),
		Rate:    m.GetRate(),
		Sources: m.GetSources(),
		Types:   m.GetTypes(),
		MinSize: m.GetMinSize(),
		MaxSize: m.GetMaxSize(),
		Data:    m.GetData(),
		Block:   m.GetBlock(),
	}
}

// samplesMessage is the message with events that a node has built. It shares their data.
func samplesMessage(builder string, events []selection.Event, counts tap.Counts) *tapv1.Samples {
	m := &tapv1.Samples{
		Built:      counts.Events,
		Dropped:    counts.Dropped,
		Passed:     counts.Skipped,
		Unreadable: counts.Unreadable,
		Builders:   1,
	}
	if len(events) == 0 {
		return m
	}
	n := 0
	for i := range events {
		n += len(events[i].Fragments)
	}
	samples, fragments := make([]tapv1.Sample, len(events)), make([]tapv1.Fragment, n)
	m.Events = make([]*tapv1.Sample, len(events))
	pointers := make([]*tapv1.Fragment, n)
	for i := range events {
		e, s, n := &events[i], &samples[i], len(events[i].Fragments)
		s.Event, s.Run, s.Mep, s.Attempt, s.Builder = e.Number, e.Run, e.MEP, e.Attempt, builder
		for k := range e.Fragments {
			from, f := &e.Fragments[k], &fragments[k]
			f.Source, f.Type, f.Version = uint32(from.Source), uint32(from.Type), uint32(from.Version)
			f.Size, f.Data = uint32(from.Size), from.Data
			pointers[k] = f
		}
		s.Fragments, m.Events[i] = pointers[:n:n], s
		fragments, pointers = fragments[n:], pointers[n:]
	}
	return m
}
