package partition

import (
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	tapv1 "ringlet/proto/ringlet/tap/v1"
)

const (
	// maxViewerMessages and maxViewerBytes are what waits for one viewer at most. The events are there once for all
	// viewers.
	maxViewerMessages = 64
	maxViewerBytes    = 16 << 20
	// maxAllViewersBytes is what waits for all viewers together. Each may have an equal share, and one message.
	maxAllViewersBytes = 128 << 20
)

// queueTotals is what waits for all viewers.
type queueTotals struct {
	viewers atomic.Int64
	bytes   atomic.Int64
}

// viewer is one of those who are shown a sample.
type viewer struct {
	queue       chan viewerMessage
	queuedBytes atomic.Int64 // bytes in out
	totals      *queueTotals

	// guarded by the sample's mu
	baseline      *tapv1.Samples // the counts when it came
	eventsDropped uint64         // events that there was no room for
}

// viewerMessage is a message for a viewer. The events in it are others' too.
type viewerMessage struct {
	samples *tapv1.Samples
	size    int // bytes
}

// addViewer adds a viewer. Where something was said before, it is told at once who builds.
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
	t.totals.bytes.Add(-v.queuedBytes.Swap(0)) // nobody takes what is left
	return len(t.viewers) == 0
}

// broadcast puts a message into the queues of all viewers that have room.
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

// enqueue puts a message into the viewer's queue, with counts of its own, or drops the events.
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

// hasCapacity says whether a message may wait for the viewer.
func (v *viewer) hasCapacity(size int64) bool {
	queued, total := v.queuedBytes.Load(), v.totals.bytes.Load()
	share := min(maxViewerBytes, maxAllViewersBytes/max(v.totals.viewers.Load(), 1))
	return total+size <= maxAllViewersBytes && (queued == 0 || queued+size <= share)
}

// release is called when so many bytes do not wait any more.
func (v *viewer) release(size int) {
	v.queuedBytes.Add(-int64(size))
	v.totals.bytes.Add(-int64(size))
}
