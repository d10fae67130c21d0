package node

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// runLog adds the number of the run to every line, from its start until the next run.
type runLog struct {
	slog.Handler

	run *atomic.Uint32 // 0 before the first run
}

func (l runLog) Handle(ctx context.Context, r slog.Record) error {
	if run := l.run.Load(); run != 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("run", uint64(run)))
	}
	return l.Handler.Handle(ctx, r)
}

func (l runLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return runLog{l.Handler.WithAttrs(attrs), l.run}
}

func (l runLog) WithGroup(name string) slog.Handler { return runLog{l.Handler.WithGroup(name), l.run} }
