package node

import (
	"context"

	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
)

// CodeForced is the code of the cause that a node tells which has stopped by force: nothing moved any more.
var CodeForced = fsm.CauseTimeout.String()

// withStallTimeout makes the context of a stop, which tells the state machine whenever something has moved: its
// time-out counts from then on.
func (s *session) withStallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return stopwatch.WithStallTimeout(ctx, stopTimeout, s.progressCount, func() {
		fsm.ReportProgress(ctx)
		s.node.leaving.extendStop()
	})
}
