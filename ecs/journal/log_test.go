package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestHandler(t *testing.T) {
	for name, tc := range map[string]struct {
		log       func(*slog.Logger)
		text      string
		run       uint32
		component string
		severity  ecsv1.Severity
	}{
		"plain": {func(l *slog.Logger) { l.Info("ready") }, "ready", 0, "", ecsv1.Severity_SEVERITY_INFO},
		"run, node": {func(l *slog.Logger) { l.Warn("slow", "run", 7, "node", "n2", "by", time.Second) }, "slow by=1s", 7,
			"n2", ecsv1.Severity_SEVERITY_WARNING},
		"of a logger": {func(l *slog.Logger) {
			l.With("run", uint32(7), "node", "n2").Error("lost", "cause", errors.New("no route"))
		}, `lost cause="no route"`, 7, "n2", ecsv1.Severity_SEVERITY_ERROR},
		"groups": {func(l *slog.Logger) {
			l.With("node", "n1").WithGroup("link").With("to", 3).Info("up", slog.Group("by", "node", "x"), "run", 2)
		}, "up link.to=3 link.by.node=x link.run=2", 0, "n1", ecsv1.Severity_SEVERITY_INFO},
		"an inlined group": {func(l *slog.Logger) { l.Info("x", slog.Group("", "run", 4)) }, "x", 4, "",
			ecsv1.Severity_SEVERITY_INFO},
		"no number": {func(l *slog.Logger) { l.Info("x", "run", "last") }, "x run=last", 0, "", ecsv1.Severity_SEVERITY_INFO},
		"nothing":   {func(l *slog.Logger) { l.Info("x", "why", "") }, `x why=""`, 0, "", ecsv1.Severity_SEVERITY_INFO},
		"no UTF-8":  {func(l *slog.Logger) { l.Info("x\xff") }, "x\uFFFD", 0, "", ecsv1.Severity_SEVERITY_INFO},
		"long": {func(l *slog.Logger) { l.Info(strings.Repeat("x", 2010)) },
			strings.Repeat("x", 2000) + "… (10 bytes more)", 0, "", ecsv1.Severity_SEVERITY_INFO},
	} {
		t.Run(name, func(t *testing.T) {
			j := New(4, 0)
			var text bytes.Buffer
			tc.log(slog.New(j.Handler(slog.NewTextHandler(&text, nil), slog.LevelInfo)))
			got := j.EventsSince(0)
			if len(got) != 1 {
				t.Fatalf("%v", got)
			}
			e := got[0]
			if e.Text != tc.text || e.Run != tc.run || e.Component != tc.component || e.Severity != tc.severity ||
				e.Kind != KindLog || e.At == nil {
				t.Errorf("%v", e)
			}
			if strings.Count(text.String(), "\n") != 1 {
				t.Errorf("passed on: %q", &text)
			}
		})
	}
}

// A logger that hands its attributes out keeps them apart from those that others hand out.
func TestLoggersDoNotShareAttributes(t *testing.T) {
	j := New(4, 0)
	root := slog.New(j.Handler(slog.DiscardHandler, slog.LevelInfo)).With("a", 1)
	one, other := root.With("b", 2), root.With("c", 3)
	one.Info("x")
	other.Info("x")
	root.Info("x", "d", 4)
	root.Info("x")
	want := []string{"1 x a=1 b=2", "2 x a=1 c=3", "3 x a=1 d=4", "4 x a=1"}
	if got := brief(j.EventsSince(0)); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q", got)
	}
}

func TestLevels(t *testing.T) {
	j := New(4, 0)
	var text bytes.Buffer
	l := slog.New(j.Handler(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}), slog.LevelWarn))
	l.Debug("to the text alone")
	l.Warn("to both")
	if got := brief(j.EventsSince(0)); len(got) != 1 || got[0] != "1 to both" || strings.Count(text.String(), "\n") != 2 {
		t.Errorf("%q, %q", got, &text)
	}
}
