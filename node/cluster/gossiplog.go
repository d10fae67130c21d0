package cluster

import (
	"context"
	"log/slog"
	"strings"

	"ringlet/internal/connlimit"
)

// textNoKey is how memberlist says that a message was sealed with another key. It has no type or callback for it, so
// its words are what there is to go by; a test holds that they are still these.
const textNoKey = "no installed keys could decrypt the message"

// gossipHandler makes records of memberlist's lines, which begin with "[LEVEL] memberlist: ", and counts those that
// tell of a wrong key.
type gossipHandler struct {
	slog.Handler
	counters   *Counters
	logLimiter *connlimit.LogLimiter
}

// textConflict is how memberlist says what NotifyConflict says as well, each time; a test holds that it is still so.
const textConflict = "Conflicting address for "

// Enabled lets every line through to Handle, where its level is known.
func (h gossipHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle gives the line its own level. Membership is a hint, and peers that are busy, shut down or killed make plenty
// of lines that memberlist calls warnings and errors: they are for those who want to know what happens. Only a wrong
// key is worth a warning, since nobody else will tell of it. What others send is told once in a while, since it comes
// as they like.
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

// logLineKind is what lines have in common that tell what somebody sent, who may be a stranger: the words in front of
// what differs. Lines of the other kinds come of what members do, and have none.
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

// isWrongKey says whether a line tells of a packet or connection that our key does not open: sealed with another, or
// not at all.
func isWrongKey(text string) bool {
	if strings.HasPrefix(text, "Decrypt packet failed") {
		return true
	}
	rest, ok := strings.CutPrefix(text, "failed to receive: ")
	return ok && (strings.HasPrefix(rest, textNoKey) || strings.HasPrefix(rest,
		"encryption is configured but remote state is not encrypted"))
}
