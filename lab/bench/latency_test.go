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

// latencyTestConfig sends a few writes there and back.
func latencyTestConfig(t *testing.T, carrier string) *LatencyConfig {
	t.Helper()
	return &LatencyConfig{
		NodesConfig: nodesTestConfig(t, carrier),
		Size:        128,
		Processing:  []time.Duration{0, 50 * time.Microsecond},
		Duration:    50 * time.Millisecond,
	}
}

// TestLatency: each carrier with a socket has trips, of which the network is a part; the processing is in the trip.
func TestLatency(t *testing.T) {
	for _, c := range transport.Kinds {
		r, err := MeasureNodes(t.Context(), latencyTestConfig(t, c.Name))
		var refused *UsageError
		if c.SameHost {
			if !errors.As(err, &refused) || refused.Setting != "carrier" {
				t.Errorf("%s: %v", c.Name, err)
			}
			continue
		}
		if err != nil || len(r.Rows) != 2 {
			t.Fatalf("%s: %v: %+v", c.Name, err, r)
		}
		for _, l := range r.Rows {
			if l.Error != "" || l.Trips == 0 || l.NetworkTime <= 0 || l.SoftwareTime <= 0 ||
				l.RoundTrip < l.NetworkTime+l.ProcessingUs {
				t.Errorf("%s: %+v", c.Name, l)
			}
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "there and back") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestVolley: medians of what was noted; without times of the kernel there are none.
func TestVolley(t *testing.T) {
	v := &tripTest{trips: []int64{30_000, 10_000, 20_000}, network: []int64{3000, 1000, 2000}, incompleteTrips: 2}
	row := v.latencyRow(5 * time.Microsecond)
	if row.RoundTrip != 20 || row.NetworkTime != 2 || row.SoftwareTime != 13 || row.TripWithoutProcessing != 15 ||
		row.Trips != 3 || row.IncompleteTrips != 2 {
		t.Errorf("%+v", row)
	}
	if row := (&tripTest{incompleteTrips: 1}).latencyRow(0); row.Error == "" {
		t.Errorf("%+v", row)
	}
}

func TestLatencySettings(t *testing.T) {
	for setting, change := range map[string]func(*LatencyConfig){
		"size":       func(c *LatencyConfig) { c.Size = config.Bytes(12) },
		"processing": func(c *LatencyConfig) { c.Processing = []time.Duration{time.Second} },
		"duration":   func(c *LatencyConfig) { c.Duration = time.Microsecond },
	} {
		c := latencyTestConfig(t, "quic")
		change(c)
		var refused *UsageError
		if _, err := MeasureNodes(t.Context(), c); !errors.As(err, &refused) || refused.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	if r, err := MeasureNodes(over, latencyTestConfig(t, "quic")); err != nil || !r.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
	nothingMapped(t)
}
