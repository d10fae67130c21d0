package main

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"ringlet/internal/connlimit"
)

// logBurst is how many lines with the same words a node of ringlet run tells in a minute; the rest is counted. Who
// has a terminal wants to know what is wrong, and once.
const logBurst = 3

// rateLimitedHandler is a log that tells of the same kind only so often. Lines with other words are another kind, and
// so are those of another level.
type rateLimitedHandler struct {
	slog.Handler

	limiter *connlimit.LogLimiter
}

func newRateLimitedHandler(h slog.Handler) rateLimitedHandler {
	return rateLimitedHandler{h, &connlimit.LogLimiter{Burst: logBurst}}
}

// rateLimitedLog is the log of a node of ringlet run: all warnings, but each kind seldom; with verbose, everything.
// rest logs what is unreported.
func rateLimitedLog(w io.Writer, verbose bool) (log *slog.Logger, rest func()) {
	if log = newLeveledLogger(w, slog.LevelWarn, verbose); verbose {
		return log, func() {}
	}
	s := newRateLimitedHandler(log.Handler())
	return slog.New(s), s.close
}

// Handle is slog's.
func (s rateLimitedHandler) Handle(ctx context.Context, r slog.Record) error {
	kind := r.Message
	if r.Level >= slog.LevelError {
		kind = "error: " + kind
	}
	suppressed, yes := s.limiter.Allow(kind, cmp.Or(r.Time, time.Now()))
	if !yes {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("more_such", suppressed))
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs is slog's.
func (s rateLimitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return rateLimitedHandler{s.Handler.WithAttrs(attrs), s.limiter}
}

// WithGroup is slog's.
func (s rateLimitedHandler) WithGroup(name string) slog.Handler {
	return rateLimitedHandler{s.Handler.WithGroup(name), s.limiter}
}

// close tells how often something was not told, so that nobody takes three lines for all.
func (s rateLimitedHandler) close() { s.limiter.LogUnreported(slog.New(s.Handler)) }
