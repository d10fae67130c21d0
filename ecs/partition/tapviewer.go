package partition

import (
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	tapv1 "ringlet/proto/ringlet/tap/v1"
)

const (
	// maxViewerMessages and maxViewerBytes bound the queue of one viewer. Viewers share the events in memory, but each
	// queue counts them.
	maxViewerMessages = 64
	maxViewerBytes    = 16 << 20
	// maxAllViewersBytes bounds the queues of all viewers together. Each viewer may use an equal share, or one message.
	maxAllViewersBytes = 128 << 20
)

// queueTotals sums the queues of all viewers.
type queueTotals struct {
	viewers atomic.Int64
	bytes   atomic.Int64
}

// viewer is one client that watches a sample.
type viewer struct {
	queue       chan viewerMessage
	queuedBytes atomic.Int64 // bytes in queue
	totals      *queueTotals

	// guarded by the sample's mu
	baseline      *tapv1.Samples // the counts when the viewer joined
	eventsDropped uint64         // events that its queue had no room for
}

// viewerMessage is a message for a viewer. Other viewers' messages have the same events.
type viewerMessage struct {
	samples *tapv1.Samples
	size    int // bytes
}

// addViewer adds a viewer. If the sample has sent a message before, the viewer gets the number of builder units and
// their problems at once.
func (t *tapSample) addViewer() *viewer {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &viewer{queue: make(chan viewerMessage, maxViewerMessages), baseline: t.lastSent, totals: t.totals}
	t.totals.viewers.Add(1)
	t.viewers = append(t.viewers, v)
	if t.lastSent != nil {
		v.enqueue(t.lastSent, 0)
	}
	return v
}

// removeViewer takes a viewer out, and says whether it was the last.
func (t *tapSample) removeViewer(v *viewer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.viewers = slices.DeleteFunc(t.viewers, func(w *viewer) bool { return w == v })
	t.totals.viewers.Add(-1)
	t.totals.bytes.Add(-v.queuedBytes.Swap(0)) // what is left in the queue is not sent
	return len(t.viewers) == 0
}

// broadcast puts a message into the queues of all viewers.
func (t *tapSample) broadcast(m *tapv1.Samples) {
	size := proto.Size(m)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.viewers {
		v.enqueue(m, size)
	}
	t.lastSent = &tapv1.Samples{
		Built:      m.GetBuilt(),
		Dropped:    m.GetDropped(),
		Passed:     m.GetPassed(),
		Unreadable: m.GetUnreadable(),
		Builders:   m.GetBuilders(),
		Problems:   m.GetProblems(),
	}
}

// enqueue puts a message into the viewer's queue, with counts since the viewer joined, or drops it if there is no room.
func (v *viewer) enqueue(m *tapv1.Samples, size int) {
	message := &tapv1.Samples{
		Events:     m.GetEvents(),
		Built:      m.GetBuilt() - v.baseline.GetBuilt(),
		Dropped:    m.GetDropped() - v.baseline.GetDropped() + v.eventsDropped,
		Passed:     m.GetPassed() - v.baseline.GetPassed(),
		Unreadable: m.GetUnreadable() - v.baseline.GetUnreadable(),
		Builders:   m.GetBuilders(),
		Problems:   m.GetProblems(),
	}
	if v.hasCapacity(int64(size)) {
		v.release(-size)
		select {
		case v.queue <- viewerMessage{message, size}:
			return
		default:
			v.release(size)
		}
	}
	v.eventsDropped += uint64(len(m.GetEvents()))
}

// hasCapacity says whether the bounds leave room for a message of that many bytes.
func (v *viewer) hasCapacity(size int64) bool {
	queued, total := v.queuedBytes.Load(), v.totals.bytes.Load()
	share := min(maxViewerBytes, maxAllViewersBytes/max(v.totals.viewers.Load(), 1))
	return total+size <= maxAllViewersBytes && (queued == 0 || queued+size <= share)
}

// release subtracts bytes that are no longer queued; a negative size adds.
func (v *viewer) release(size int) {
	v.queuedBytes.Add(-int64(size))
	v.totals.bytes.Add(-int64(size))
}
