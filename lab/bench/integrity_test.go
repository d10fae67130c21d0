package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
)

// integrityTestConfig writes so slowly that any machine can follow.
func integrityTestConfig(t *testing.T, carrier string) *IntegrityConfig {
	t.Helper()
	return &IntegrityConfig{
		NodesConfig: nodesTestConfig(t, carrier),
		Size:        384,
		Rate:        2000,
		Buffers:     64,
		Duration:    60 * time.Millisecond,
	}
}

// TestIntegrity: nothing is lost or damaged, and what was tried is accounted for. How much is missed is the machine's.
func TestIntegrity(t *testing.T) {
	for _, carrier := range carrierNames() {
		cfg := integrityTestConfig(t, carrier)
		r, err := MeasureNodes(t.Context(), cfg)
		for err == nil && (r.Sent == 0 || r.Tries == 0) && cfg.Duration < patiently.LongTimeout { // others had the processor
			cfg.Duration *= 2
			r, err = MeasureNodes(t.Context(), cfg)
		}
		if err != nil || !r.good() || r.Sent == 0 || r.Tries == 0 || r.ConsecutiveEvents > r.MatchingEvents ||
			r.MatchingEvents > r.Tries || r.Tries > r.Sent || r.Within1us > r.Within2us {
			t.Fatalf("%s: %v: %+v", carrier, err, r)
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "237, 16.2 per million") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestIntegrityInterrupted: an interruption ends in good order.
func TestIntegrityInterrupted(t *testing.T) {
	cfg := integrityTestConfig(t, "quic")
	cfg.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if r, err := MeasureNodes(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) || r != nil && !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
	nothingMapped(t)
}

// TestLooker: an event that is overwritten is a mismatch, one that was jumped over is missed, and words of nobody are
// damaged.
func TestLooker(t *testing.T) {
	mem := make([]byte, 2*32)
	r := &integrityReport{}
	k := &eventPoller{flow: newFlow(0, 1, 32, 1, mem), report: r, checkTimes: newTimes()}
	put := func(buffer int, seq uint64) { fillWords(mem[buffer*32:(buffer+1)*32], 0, seq) }
	put(0, 0)
	put(1, 1)
	next := k.check(1, k.check(0, 0))
	if next != 2 || r.ConsecutiveEvents != 2 {
		t.Fatalf("%d comes next: %+v", next, r)
	}
	put(0, 4) // 2 was overwritten before it was looked at
	if next = k.check(0, next); next != 5 || r.MatchingEvents != 3 || r.missedEvents() != 1 {
		t.Fatalf("%d comes next: %+v", next, r)
	}
	put(1, 5)
	fillWords(mem[32:40], 0, 7) // 7 begins to overwrite it
	if next = k.check(1, next); next != 5 || r.mismatched() != 1 || r.DamagedWords != 0 {
		t.Fatalf("%d comes next: %+v", next, r)
	}
	shmem.Word64(mem, 48).Store(12345)
	if k.check(1, next); r.mismatched() != 2 || r.DamagedWords != 1 {
		t.Fatalf("%+v", r)
	}
}

// TestIntegrityRefused: settings that cannot be are refused before anything starts.
func TestIntegrityRefused(t *testing.T) {
	for setting, change := range map[string]func(*IntegrityConfig){
		"carrier": func(c *IntegrityConfig) { c.Carrier = "pigeon" },
		"size":    func(c *IntegrityConfig) { c.Size = 4 },
		"rate":    func(c *IntegrityConfig) { c.Rate = 0 },
		"buffers": func(c *IntegrityConfig) { c.Buffers = 1 },
	} {
		cfg := integrityTestConfig(t, "quic")
		change(cfg)
		_, err := MeasureNodes(t.Context(), cfg)
		var refused *UsageError
		if !errors.As(err, &refused) || refused.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
