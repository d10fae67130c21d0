package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringlet/lab/stages"
	"ringlet/transport"
)

// briefTraceConfig follows a few writes.
func briefTraceConfig(t *testing.T, carrier string) *TraceConfig {
	t.Helper()
	return &TraceConfig{
		NodesConfig: nodesTestConfig(t, carrier),
		Size:        64,
		Writes:      200,
	}
}

// TestTrace: every stage is seen, over each carrier that has any.
func TestTrace(t *testing.T) {
	for _, c := range transport.Kinds {
		r, err := MeasureNodes(t.Context(), briefTraceConfig(t, c.Name))
		var refused *UsageError
		if c.SameHost {
			if !errors.As(err, &refused) || refused.Setting != "carrier" {
				t.Errorf("%s: %v", c.Name, err)
			}
			continue
		}
		if err != nil || r.FollowedWrites == 0 || r.FollowedWrites+r.IncompleteWrites != 200 ||
			len(r.Stages) != stages.NumStages || r.Bound.MByteS <= 0 {
			t.Fatalf("%s: %v: %+v", c.Name, err, r)
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "system call") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestTraceInterrupted: an interruption ends in good order.
func TestTraceInterrupted(t *testing.T) {
	cfg := briefTraceConfig(t, "quic")
	cfg.Writes = maxTraced
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if r, err := MeasureNodes(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) || r != nil && !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
	nothingMapped(t)
}
