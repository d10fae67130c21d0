package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func decisionsTestConfig(t *testing.T, carrier string) *DecisionsConfig {
	t.Helper()
	return &DecisionsConfig{
		NodesConfig: nodesTestConfig(t, carrier),
		Builders:    3,
		Depth:       1820,
		Timeout:     10 * time.Second,
		EventsInRow: 7,
		Rate:        20000,
		Duration:    60 * time.Millisecond,
	}
}

// TestDecisions: each event has one decision, in order, by a result where there is time.
func TestDecisions(t *testing.T) {
	for _, carrier := range carrierNames() {
		r, err := MeasureNodes(t.Context(), decisionsTestConfig(t, carrier))
		if err != nil || !r.good() || r.Events == 0 || r.ByResult != r.Events || r.Writes == 0 {
			t.Fatalf("%s: %v: %+v", carrier, err, r)
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "100.000 %") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestDecisionsTooLate: after the time-out events are decided all the same, and their results are late.
func TestDecisionsTooLate(t *testing.T) {
	cfg := decisionsTestConfig(t, "quic")
	cfg.Timeout, cfg.Builders, cfg.Rate = time.Microsecond, 8, 0
	r, err := MeasureNodes(t.Context(), cfg)
	if err != nil || !r.good() || r.TimedOut+r.ByResult+r.Unanswered != r.Events ||
		r.LateResults != r.TimedOut+r.Unanswered {
		t.Fatalf("%v: %+v", err, r)
	}
}

// TestDecisionsInterrupted: an interruption ends in good order.
func TestDecisionsInterrupted(t *testing.T) {
	cfg := decisionsTestConfig(t, "local")
	cfg.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if r, err := MeasureNodes(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) || r != nil && !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
	nothingMapped(t)
}

// TestDecisionsRefused: settings that cannot be are refused before anything starts.
func TestDecisionsRefused(t *testing.T) {
	for setting, change := range map[string]func(*DecisionsConfig){
		"carrier":  func(c *DecisionsConfig) { c.Carrier = "pigeon" },
		"builders": func(c *DecisionsConfig) { c.Builders = 0 },
		"depth":    func(c *DecisionsConfig) { c.Depth = 0 },
		"timeout":  func(c *DecisionsConfig) { c.Timeout = 1 },
		"together": func(c *DecisionsConfig) { c.EventsInRow = 1821 },
		"rate":     func(c *DecisionsConfig) { c.Rate = -1 },
		"duration": func(c *DecisionsConfig) { c.Duration = 0 },
	} {
		cfg := decisionsTestConfig(t, "quic")
		change(cfg)
		_, err := MeasureNodes(t.Context(), cfg)
		var refused *UsageError
		if !errors.As(err, &refused) || refused.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
