package node

import (
	"context"

	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
)

// CodeForced is the code of the cause of a node that stopped by force, since there was no more progress.
var CodeForced = fsm.CauseTimeout.String()

// withStallTimeout makes the context of a stop. It reports each progress to the state machine, whose time-out then
// begins again.
func (s *session) withStallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return stopwatch.WithStallTimeout(ctx, stopTimeout, s.progressCount, func() {
		fsm.ReportProgress(ctx)
		s.node.leaving.extendStop()
	})
}
