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
)

// viewer is one of those who are shown a sample.
type viewer struct {
	out     chan showing
	waiting atomic.Int64 // bytes in out

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
	v := &viewer{out: make(chan showing, viewerMessages), before: t.said}
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
	if has := v.waiting.Load(); has == 0 || has+int64(size) <= viewerBytes {
		v.waiting.Add(int64(size))
		select {
		case v.out <- showing{own, size}:
			return
		default:
			v.waiting.Add(-int64(size))
		}
	}
	v.dropped += uint64(len(m.GetEvents()))
}
