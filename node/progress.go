package node

import (
	"context"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
)

// CodeForced is the code of the cause that a node tells which has stopped by force: nothing moved any more.
var CodeForced = fsm.CauseTimeout.String()

// writtenReporter is an output that tells how many bytes it has written so far. Any goroutine may ask.
type writtenReporter interface{ Written() uint64 }

// outputBytesWritten is what the output has written so far; 0 where it does not tell.
func (s *session) outputBytesWritten() uint64 {
	s.mu.Lock()
	out := s.sink
	s.mu.Unlock()
	if w, ok := out.(writtenReporter); ok {
		return w.Written()
	}
	return 0
}

// progressCount counts what moves while this node's part in a run comes to its end: bytes that are placed here, writes
// to others that have their outcome, MEPs, and bytes in the output. A stop waits for as long as it changes.
func (s *session) progressCount() uint64 {
	links := s.endpoint.Stats()
	n := links.BytesPlaced + links.WritesCompleted + s.outputBytesWritten()
	if bu := s.bu.Load(); bu != nil {
		b := bu.Stats()
		n += b.BuiltMEPs + b.IncompleteMEPs + b.DiscardedMEPs + b.RejectedMEPs
	}
	return n
}

// extendStop asks the service manager for more time, where this node was told to end, and still has something to bring
// to an end.
func (n *process) extendStop() {
	now := time.Now().Unix()
	if n.leaveRequested.Load() && n.lastExtension.Swap(now) != now { // once a second
		n.cfg.Notifier.ExtendTimeout(stopTimeout + lingerTimeout)
	}
}

// withStallTimeout makes the context of a stop, which tells the state machine whenever something has moved: its
// time-out counts from then on.
func (s *session) withStallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return stopwatch.WithStallTimeout(ctx, stopTimeout, s.progressCount, func() {
		fsm.ReportProgress(ctx)
		s.node.extendStop()
	})
}
