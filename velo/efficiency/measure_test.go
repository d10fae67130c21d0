package efficiency

import (
	"slices"
	"strings"
	"testing"

	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/velo/frontend"
)

// TestTheFilterFindsDecays holds the filter to less than what the report says of many events, within what few can show.
func TestTheFilterFindsDecays(t *testing.T) {
	d := frontend.Default()
	d.Collisions.Displaced = 0.3
	events := cases.Count[uint64](1500, 300)
	r, err := Measure(t.Context(), Config{Events: events, Seed: 1, Detector: d})
	must.OK(t, err)
	for _, tt := range []struct {
		of        string
		share     Share
		low, high float64
	}{
		{"clean decays", r.Clean, 0.88, 1},
		{"visible decays", r.Visible, 0.75, 1},
		{"others", r.OtherEvents, 0, 0.06},
		{"collisions", r.PrimariesFound, 0.97, 1},
	} {
		if got, _ := tt.share.fraction(); !(got >= tt.low && got <= tt.high) {
			t.Errorf("%s: %v", tt.of, tt.share)
		}
	}
	if z := r.PrimaryZ.centralSigma(); z > 100 || r.Displaced.All+r.OtherEvents.All != events {
		t.Errorf("σ is %v µm; %d and %d events", z, r.Displaced.All, r.OtherEvents.All)
	}
	var text, drawn strings.Builder
	must.OK(t, r.Print(&text))
	if !strings.Contains(text.String(), "secondary vertex") {
		t.Error(text.String())
	}
	// With so many decays there is more in an event than the documents have on average.
	for _, tt := range []struct {
		of             string
		got, low, high float64
	}{
		{"clusters of an event", r.NoisyData.ClustersPerEvent.mean(), 1700, 2300},
		{"without noise", r.NoiselessData.ClustersPerEvent.mean(), 1200, 1800},
		{"clusters of a board", r.NoisyData.ClustersPerBoard.mean(), 17, 23},
		{"most of a board", float64(r.NoisyData.ClustersPerBoard.largest), 60, 127},
		{"occupancy without noise", r.NoiselessData.occupancy(), 0.005, 0.014},
		// 8 a board and some padding
		{"bytes of an event", r.NoisyData.BytesPerEvent.mean() - 2*r.NoisyData.ClustersPerEvent.mean(), 800, 1000},
	} {
		if !(tt.got >= tt.low && tt.got <= tt.high) {
			t.Errorf("%s: %g", tt.of, tt.got)
		}
	}
	must.OK(t, r.WritePage(&drawn))
	if !strings.Contains(drawn.String(), "Clusters of a board") {
		t.Error("the page does not draw the data")
	}
}

// TestSpectrum counts numbers in bins.
func TestSpectrum(t *testing.T) {
	s := countHistogram{binWidth: 10}
	for _, v := range []int{0, 9, 10, 35} {
		s.add(v)
	}
	if s.mean() != 13.5 || s.largest != 35 || !slices.Equal(s.bins, []uint64{2, 1, 0, 1}) {
		t.Errorf("%+v", s)
	}
	if got := s.curve("all").Points; got[0].X != 5 || got[0].Median != 50 || got[3].X != 35 || got[3].Median != 25 {
		t.Errorf("%+v", got)
	}
}
