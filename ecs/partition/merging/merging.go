package merging

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"ringlet/event/selection"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// Bounds.
const (
	// maxPendingBytes is what waits for the viewer between two messages, about.
	maxPendingBytes = 16 << 20
	// heartbeatInterval is after how long a message without events is sent.
	heartbeatInterval = time.Second
)

// Merger is the core. It is for one goroutine at a time.
type Merger struct {
	bucket          selection.TokenBucket
	openCounts      map[string]*tapv1.Samples // counts of the streams that are open, by node
	endedCounts     tapv1.Samples             // counts of those that have ended
	droppedEvents   uint64                    // events that had no room here
	problems        map[string]string         // by node
	pending         []*tapv1.Sample
	pendingBytes    int
	lastSent        time.Time // of the last message; zero: there was none
	buildersChanged bool      // builder units came, went, or cannot be looked at
}

// New makes one for a viewer who asked for that.
func New(sel selection.Selection, now time.Time) *Merger {
	return &Merger{
		bucket:          sel.NewBucket(now),
		openCounts:      map[string]*tapv1.Samples{},
		problems:        map[string]string{},
		buildersChanged: true,
	}
}

// PerBuilderRate is what each of so many builder units is asked for: a quarter more than its part, since they do not
// build by turns exactly.
func PerBuilderRate(rate float64, builders int) float64 {
	return min(rate, 1.25*rate/float64(max(1, builders)))
}

// BeginStream takes that the stream of a node is asked for.
func (m *Merger) BeginStream(node string) {
	m.EndStream(node, "")
	m.openCounts[node] = &tapv1.Samples{}
	m.buildersChanged = true
}

// EndStream takes that it has ended, and why; an empty reason is that it was not wanted any more.
func (m *Merger) EndStream(node, why string) {
	if last, is := m.openCounts[node]; is {
		addCounts(&m.endedCounts, last)
		delete(m.openCounts, node)
		m.buildersChanged = true
	}
	if why == "" {
		delete(m.problems, node)
	} else if m.problems[node] != why {
		m.problems[node], m.buildersChanged = why, true
	}
}

// CountDropped counts events of a message that nobody had time to take.
func (m *Merger) CountDropped(events int) { m.droppedEvents += uint64(events) }

// Add takes a message of a node. Events beyond the rate are let go.
func (m *Merger) Add(now time.Time, node string, s *tapv1.Samples) {
	if m.openCounts[node] == nil {
		return // of a stream that is over
	}
	if _, had := m.problems[node]; had {
		delete(m.problems, node)
		m.buildersChanged = true
	}
	m.openCounts[node] = countsOnly(s)
	for i, e := range s.GetEvents() {
		if !m.bucket.HasTokens(now, 1) {
			return
		}
		size := proto.Size(e)
		if m.pendingBytes > 0 && m.pendingBytes+size > maxPendingBytes {
			m.droppedEvents += uint64(len(s.GetEvents()) - i)
			return
		}
		m.bucket.Consume(now, 1)
		m.pending, m.pendingBytes = append(m.pending, e), m.pendingBytes+size
	}
}

// Next is the message for the viewer; nil if there is nothing to say yet.
func (m *Merger) Next(now time.Time) *tapv1.Samples {
	if len(m.pending) == 0 && !m.buildersChanged && now.Sub(m.lastSent) < heartbeatInterval {
		return nil
	}
	out := countsOnly(&m.endedCounts)
	for _, s := range m.openCounts {
		addCounts(out, s)
	}
	out.Events, out.Dropped, out.Builders = m.pending, out.GetDropped()+m.droppedEvents, uint32(len(m.openCounts))
	for _, node := range slices.Sorted(maps.Keys(m.problems)) {
		out.Problems = append(out.Problems, node+": "+m.problems[node])
	}
	m.pending, m.pendingBytes, m.lastSent, m.buildersChanged = nil, 0, now, false
	return out
}

// countsOnly is the counts of a message alone.
func countsOnly(s *tapv1.Samples) *tapv1.Samples {
	return &tapv1.Samples{
		Built:      s.GetBuilt(),
		Dropped:    s.GetDropped(),
		Passed:     s.GetPassed(),
		Unreadable: s.GetUnreadable(),
	}
}

// addCounts adds counts.
func addCounts(to, s *tapv1.Samples) {
	to.Built += s.GetBuilt()
	to.Dropped += s.GetDropped()
	to.Passed += s.GetPassed()
	to.Unreadable += s.GetUnreadable()
}
