package journal

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// maxLine bounds a log line in the journal, in bytes, so that the memory of the journal is bounded.
const maxLine = 2000

// handler adds log lines to a journal and passes them on.
type handler struct {
	journal *Journal
	level   slog.Leveler
	next    slog.Handler

	prefix    string // of attribute names, from groups
	attrs     string // formatted, each after a space
	run       uint32
	component string
}

// Handler returns a slog.Handler that adds log lines of at least the level to the journal, as events of kind KindLog,
// and passes all lines on to next. The attribute "run" becomes the event's run, "node" its component; the others follow
// the message.
func (j *Journal) Handler(next slog.Handler, level slog.Leveler) slog.Handler {
	return &handler{journal: j, level: level, next: next}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level.Level() || h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= h.level.Level() {
		line := *h // a copy collects the line's own attributes
		r.Attrs(func(a slog.Attr) bool { line.addAttr(line.prefix, a); return true })
		e := &ecsv1.Event{
			Kind:      KindLog,
			Component: line.component,
			Run:       line.run,
			Text:      truncate(r.Message + line.attrs),
			Severity:  severity(r.Level),
		}
		if !r.Time.IsZero() {
			e.At = timestamppb.New(r.Time)
		}
		h.journal.Add(e)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		n.addAttr(n.prefix, a)
	}
	return &n
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	n := *h
	n.next = h.next.WithGroup(name)
	n.prefix += name + "."
	return &n
}

// addAttr formats an attribute, or makes it the event's run or component.
func (h *handler) addAttr(prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
		return
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range v.Group() {
			h.addAttr(prefix, inner)
		}
		return
	case prefix == "" && a.Key == "node":
		h.component = v.String()
		return
	case prefix == "" && a.Key == "run":
		if n, err := strconv.ParseUint(v.String(), 10, 32); err == nil {
			h.run = uint32(n)
			return
		}
	}
	text := v.String()
	if text == "" || strings.ContainsAny(text, " \t\n\"=") {
		text = strconv.Quote(text)
	}
	h.attrs += " " + prefix + a.Key + "=" + text
}

func severity(l slog.Level) ecsv1.Severity {
	switch {
	case l >= slog.LevelError:
		return ecsv1.Severity_SEVERITY_ERROR
	case l >= slog.LevelWarn:
		return ecsv1.Severity_SEVERITY_WARNING
	}
	return ecsv1.Severity_SEVERITY_INFO
}

// truncate makes a text that a protobuf message can have: valid UTF-8, of at most about maxLine bytes.
func truncate(s string) string {
	if len(s) > maxLine {
		s = fmt.Sprintf("%s… (%d bytes more)", s[:maxLine], len(s)-maxLine)
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
