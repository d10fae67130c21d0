package cluster

import (
	"context"
	"log/slog"
	"strings"

	"ringlet/internal/connlimit"
)

// textNoKey is memberlist's text for a message that was sealed with another key. memberlist has no type or callback for
// it; a test checks that the text is still the same.
const textNoKey = "no installed keys could decrypt the message"

// gossipHandler makes records of memberlist's lines, which begin with "[LEVEL] memberlist: ", and counts those about a
// wrong key.
type gossipHandler struct {
	slog.Handler
	counters   *Counters
	logLimiter *connlimit.LogLimiter
}

// textConflict begins memberlist's line for each NotifyConflict, which logs the same; a test checks that it still does.
const textConflict = "Conflicting address for "

// Enabled passes every line to Handle, which knows its level.
func (h gossipHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle gives the line its own level. Membership is a hint, and peers that are busy, shut down or killed cause many
// lines that memberlist calls warnings and errors: they become information. Only a wrong key is a warning, since no
// other line reports it. Lines caused by received data are limited, since a stranger may cause any number.
func (h gossipHandler) Handle(ctx context.Context, r slog.Record) error {
	level, text := slog.LevelInfo, r.Message
	if rest, ok := strings.CutPrefix(text, "["); ok {
		if name, after, ok := strings.Cut(rest, "] "); ok {
			text = strings.TrimPrefix(after, "memberlist: ")
			if name == "DEBUG" || strings.HasPrefix(text, textConflict) {
				level = slog.LevelDebug
			}
		}
	}
	kind := logLineKind(text)
	if isWrongKey(text) {
		level, kind = slog.LevelWarn, "key"
		h.counters.WrongKey.Add(1)
	}
	if !h.Handler.Enabled(ctx, level) {
		return nil
	}
	out := slog.NewRecord(r.Time, level, "gossip: "+text, r.PC)
	if kind != "" {
		unreported, yes := h.logLimiter.Allow(kind, r.Time)
		if !yes {
			return nil
		}
		out.AddAttrs(slog.Int("unreported", unreported))
	}
	return h.Handler.Handle(ctx, out)
}

// logLineKind is the fixed beginning of a line about received data, which may come from a stranger. Lines about members
// have no kind.
func logLineKind(text string) string {
	kind, _, sent := strings.Cut(text, " from=")
	if !sent {
		return ""
	}
	if i := strings.IndexAny(kind, "\"(0123456789"); i >= 0 {
		kind = kind[:i]
	}
	return "sent: " + kind
}

// isWrongKey tells whether a line is about a packet or connection that the key does not open: sealed with another key,
// or not sealed.
func isWrongKey(text string) bool {
	if strings.HasPrefix(text, "Decrypt packet failed") {
		return true
	}
	rest, ok := strings.CutPrefix(text, "failed to receive: ")
	return ok && (strings.HasPrefix(rest, textNoKey) || strings.HasPrefix(rest,
		"encryption is configured but remote state is not encrypted"))
}
