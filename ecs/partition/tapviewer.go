package partition

import (
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	tapv1 "ringlet/proto/ringlet/tap/v1"
)

const (
	// viewerMessages and viewerBytes are what waits for one viewer at most. The events are there once for all viewers.
	viewerMessages = 64
	viewerBytes    = 16 << 20
	// viewersBytes is what waits for all viewers together. Each may have an equal share, and one message.
	viewersBytes = 128 << 20
)

// waits is what waits for all viewers.
type waits struct {
	viewers atomic.Int64
	bytes   atomic.Int64
}

// viewer is one of those who are shown a sample.
type viewer struct {
	out     chan showing
	waiting atomic.Int64 // bytes in out
	all     *waits

	// guarded by the sample's mu
	before  *tapv1.Samples // the counts when it came
	dropped uint64         // events that there was no room for
}

// showing is a message for a viewer. The events in it are others' too.
type showing struct {
	of   *tapv1.Samples
	size int // bytes
}

// admit adds a viewer. Where something was said before, it is told at once who builds.
func (t *tapping) admit() *viewer {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &viewer{out: make(chan showing, viewerMessages), before: t.said, all: t.waits}
	t.waits.viewers.Add(1)
	t.viewers = append(t.viewers, v)
	if t.said != nil {
		v.tell(t.said, 0)
	}
	return v
}

// dismiss takes a viewer out, and says whether it was the last.
func (t *tapping) dismiss(v *viewer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.viewers = slices.DeleteFunc(t.viewers, func(w *viewer) bool { return w == v })
	t.waits.viewers.Add(-1)
	t.waits.bytes.Add(-v.waiting.Swap(0)) // nobody takes what is left
	return len(t.viewers) == 0
}

// tell puts a message into the queues of all viewers that have room.
func (t *tapping) tell(m *tapv1.Samples) {
	size := proto.Size(m)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.viewers {
		v.tell(m, size)
	}
	t.said = &tapv1.Samples{
		Built:      m.GetBuilt(),
		Dropped:    m.GetDropped(),
		Passed:     m.GetPassed(),
		Unreadable: m.GetUnreadable(),
		Builders:   m.GetBuilders(),
		Problems:   m.GetProblems(),
	}
}

// tell puts a message into the viewer's queue, with counts of its own, or drops the events.
func (v *viewer) tell(m *tapv1.Samples, size int) {
	own := &tapv1.Samples{
		Events:     m.GetEvents(),
		Built:      m.GetBuilt() - v.before.GetBuilt(),
		Dropped:    m.GetDropped() - v.before.GetDropped() + v.dropped,
		Passed:     m.GetPassed() - v.before.GetPassed(),
		Unreadable: m.GetUnreadable() - v.before.GetUnreadable(),
		Builders:   m.GetBuilders(),
		Problems:   m.GetProblems(),
	}
	if v.room(int64(size)) {
		v.took(-size)
		select {
		case v.out <- showing{own, size}:
			return
		default:
			v.took(size)
		}
	}
	v.dropped += uint64(len(m.GetEvents()))
}

// room says whether a message may wait for the viewer.
func (v *viewer) room(size int64) bool {
	has, all := v.waiting.Load(), v.all.bytes.Load()
	share := min(viewerBytes, viewersBytes/max(v.all.viewers.Load(), 1))
	return all+size <= viewersBytes && (has == 0 || has+size <= share)
}

// took is called when so many bytes do not wait any more.
func (v *viewer) took(size int) {
	v.waiting.Add(-int64(size))
	v.all.bytes.Add(-int64(size))
}
