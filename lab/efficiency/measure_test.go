package efficiency

import (
	"strings"
	"testing"

	"ringlet/readoutunit/source/frontend"
	"ringlet/testkit/must"
)

// TestTheFilterFindsDecays holds the filter to less than what the report says of many events, within what few can show.
func TestTheFilterFindsDecays(t *testing.T) {
	d := frontend.Default()
	d.Collisions.Displaced = 0.3
	events := uint64(1500)
	if testing.Short() {
		events = 300
	}
	r, err := Measure(t.Context(), Config{Events: events, Seed: 1, Detector: d})
	must.OK(t, err)
	for _, tt := range []struct {
		of        string
		share     Share
		low, high float64
	}{
		{"clean decays", r.Clean, 0.88, 1},
		{"visible decays", r.Visible, 0.75, 1},
		{"others", r.Others, 0, 0.06},
		{"collisions", r.Primaries, 0.97, 1},
	} {
		if got, _ := tt.share.value(); !(got >= tt.low && got <= tt.high) {
			t.Errorf("%s: %v", tt.of, tt.share)
		}
	}
	if z := r.PrimaryZ.core(); z > 100 || r.Displaced.All+r.Others.All != events {
		t.Errorf("σ is %v µm; %d and %d events", z, r.Displaced.All, r.Others.All)
	}
	var text strings.Builder
	must.OK(t, r.Print(&text))
	if !strings.Contains(text.String(), "secondary vertex") {
		t.Error(text.String())
	}
}
