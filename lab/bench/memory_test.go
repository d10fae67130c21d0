package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
	"ringlet/transport"
)

// TestMemory: every carrier puts, gets and wakes; no speed is asked for.
func TestMemory(t *testing.T) {
	for _, c := range transport.Kinds {
		r, err := Memory(t.Context(), MemoryConfig{
			NodesConfig: nodesOf(t, c.Name),
			Sizes:       []config.Bytes{8, 100_000},
			Duration:    20 * time.Millisecond,
			Lanes:       3,
		})
		if err != nil || len(r.Rows) != 2 || r.UDPTrip <= 0 || r.Add <= 0 {
			t.Fatalf("%s: %v: %+v", c.Name, err, r)
		}
		for _, m := range r.Rows {
			if m.Put <= 0 || m.Get <= 0 || m.Message <= 0 || m.PutGbps <= 0 || m.GetGbps <= 0 || m.Copy <= 0 {
				t.Errorf("%s: %+v", c.Name, m)
			}
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "97.7 KiB") &&
			!strings.Contains(text.String(), "100000") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestMemoryEnds: what cannot be is refused, and an interrupt ends it with what there is.
func TestMemoryEnds(t *testing.T) {
	cfg := MemoryConfig{
		NodesConfig: nodesOf(t, "quic"),
		Sizes:       []config.Bytes{8},
		Duration:    20 * time.Millisecond,
		Lanes:       1,
	}
	for setting, wrong := range map[string]func(c *MemoryConfig){
		"sizes":    func(c *MemoryConfig) { c.Sizes = []config.Bytes{memorySize + 1} },
		"lanes":    func(c *MemoryConfig) { c.Lanes = 0 },
		"duration": func(c *MemoryConfig) { c.Duration = 1 },
		"carrier":  func(c *MemoryConfig) { c.Carrier = "pigeon" },
	} {
		c := cfg
		wrong(&c)
		var refused *UsageError
		if _, err := Memory(t.Context(), c); !errors.As(err, &refused) || refused.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	cfg.Duration = time.Hour
	r, err := Memory(ctx, cfg)
	if err != nil && r == nil {
		return // it had not begun
	}
	if err != nil || !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
}
