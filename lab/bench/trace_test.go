package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringlet/transport"
)

// brief follows a few writes.
func brief(t *testing.T, carrier string) TraceConfig {
	t.Helper()
	return TraceConfig{
		NodesConfig: nodesOf(t, carrier),
		Size:        64,
		Writes:      200,
	}
}

// TestTrace: every stage is seen, over each carrier that has any.
func TestTrace(t *testing.T) {
	for _, c := range transport.Kinds {
		r, err := Trace(t.Context(), brief(t, c.Name))
		var refused *UsageError
		if c.SameHost {
			if !errors.As(err, &refused) || refused.Setting != "carrier" {
				t.Errorf("%s: %v", c.Name, err)
			}
			continue
		}
		if err != nil || r.Followed == 0 || r.Followed+r.Incomplete != 200 || len(r.Stages) != stageCount ||
			r.Bound.MByteS <= 0 {
			t.Fatalf("%s: %v: %+v", c.Name, err, r)
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "system call") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestTracer: the sender's stages count the first time, the receiver's the last time before its code is told.
func TestTracer(t *testing.T) {
	tr := &tracer{start: time.Now().Add(-time.Hour)}
	near, far := tr.follow(0), tr.follow(1)
	near(int(transport.StageCut))
	first := tr.at[transport.StageCut].Load()
	near(int(transport.StageCut))
	near(int(transport.StageReceived)) // an echo
	far(int(transport.StageSealed))    // the answer
	if tr.at[transport.StageCut].Load() != first || tr.at[transport.StageReceived].Load() != 0 ||
		tr.at[transport.StageSealed].Load() != 0 {
		t.Error("what is of echoes and answers counts")
	}
	far(int(transport.StageReceived))
	far(stageSeen)
	last := tr.at[transport.StageReceived].Load()
	far(int(transport.StageReceived))
	if tr.at[transport.StageReceived].Load() != last || last == 0 {
		t.Error("what came after the write counts")
	}
}

// TestTraceInterrupted: an interruption ends in good order.
func TestTraceInterrupted(t *testing.T) {
	cfg := brief(t, "quic")
	cfg.Writes = maxTraced
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if r, err := Trace(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) || r != nil && !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
	nothingMapped(t)
}
