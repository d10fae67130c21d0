package main

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"ringlet/internal/connlimit"
)

// logBurst is how many lines with the same message a node of ringlet run logs in a minute; further ones are counted.
const logBurst = 3

// rateLimitedHandler bounds the lines of each kind: those with the same message, errors apart from other levels.
type rateLimitedHandler struct {
	slog.Handler

	limiter *connlimit.LogLimiter
}

func newRateLimitedHandler(h slog.Handler) rateLimitedHandler {
	return rateLimitedHandler{h, &connlimit.LogLimiter{Burst: logBurst}}
}

// rateLimitedLog is the log of a node of ringlet run: warnings, with a bound for each kind; with verbose, all lines.
// Call rest at the end: it logs how many lines were left out.
func rateLimitedLog(w io.Writer, verbose bool) (log *slog.Logger, rest func()) {
	if log = newLeveledLogger(w, slog.LevelWarn, verbose); verbose {
		return log, func() {}
	}
	s := newRateLimitedHandler(log.Handler())
	return slog.New(s), s.close
}

// Handle implements slog.Handler.
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

// WithAttrs implements slog.Handler.
func (s rateLimitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return rateLimitedHandler{s.Handler.WithAttrs(attrs), s.limiter}
}

// WithGroup implements slog.Handler.
func (s rateLimitedHandler) WithGroup(name string) slog.Handler {
	return rateLimitedHandler{s.Handler.WithGroup(name), s.limiter}
}

// close logs how many lines of each kind were left out.
func (s rateLimitedHandler) close() { s.limiter.LogUnreported(slog.New(s.Handler)) }
