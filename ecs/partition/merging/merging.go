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
	// maxPendingBytes bounds the events between two messages, but for one larger event.
	maxPendingBytes = 16 << 20
	// heartbeatInterval is the time after which Next returns a message without events.
	heartbeatInterval = time.Second
)

// Merger is the core. It is for one goroutine at a time.
type Merger struct {
	bucket          selection.TokenBucket
	openCounts      map[string]*tapv1.Samples // counts of the open streams, by node
	endedCounts     tapv1.Samples             // sum of the counts of ended streams
	droppedEvents   uint64                    // events that were dropped for want of room
	problems        map[string]string         // why a stream has ended, by node
	pending         []*tapv1.Sample
	pendingBytes    int
	lastSent        time.Time // when Next returned the last message; zero: never
	buildersChanged bool      // streams or problems have changed since
}

// New makes a Merger for a request.
func New(sel selection.Selection, now time.Time) *Merger {
	return &Merger{
		bucket:          sel.NewBucket(now),
		openCounts:      map[string]*tapv1.Samples{},
		problems:        map[string]string{},
		buildersChanged: true,
	}
}

// PerBuilderRate is the rate that each builder unit is asked for: a quarter more than its share, since builder units do
// not build at exactly equal rates.
func PerBuilderRate(rate float64, builders int) float64 {
	return min(rate, 1.25*rate/float64(max(1, builders)))
}

// BeginStream notes that the stream of a node is opened.
func (m *Merger) BeginStream(node string) {
	m.EndStream(node, "")
	m.openCounts[node] = &tapv1.Samples{}
	m.buildersChanged = true
}

// EndStream notes that the stream of a node has ended, and why; why is empty if the caller ended it.
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

// CountDropped counts events that the caller dropped before Add.
func (m *Merger) CountDropped(events int) { m.droppedEvents += uint64(events) }

// Add merges a message of a node. It leaves out events beyond the request's rate.
func (m *Merger) Add(now time.Time, node string, s *tapv1.Samples) {
	if m.openCounts[node] == nil {
		return // the stream has ended
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

// Next returns the merged message; nil if nothing has changed and the heartbeat is not due.
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

// countsOnly is a message with the counts of s alone.
func countsOnly(s *tapv1.Samples) *tapv1.Samples {
	return &tapv1.Samples{
		Built:      s.GetBuilt(),
		Dropped:    s.GetDropped(),
		Passed:     s.GetPassed(),
		Unreadable: s.GetUnreadable(),
	}
}

func addCounts(to, s *tapv1.Samples) {
	to.Built += s.GetBuilt()
	to.Dropped += s.GetDropped()
	to.Passed += s.GetPassed()
	to.Unreadable += s.GetUnreadable()
}
