package frontend

import (
	"errors"
	"math"
	"strings"
	"testing"

	"ringlet/testkit/cases"
	"ringlet/velo"
)

func detector(t testing.TB, change func(c *Config)) *Detector {
	t.Helper()
	c := Default()
	if change != nil {
		change(&c)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// counts is what a number of events had.
type counts struct {
	events, clusters, two float64
	board                 [100]float64
	most                  int
	hits, tracks          float64 // of the truth
}

func count(d *Detector, seed uint64, raw bool, events int) (c counts) {
	e := d.newSimulator(seed, raw)
	var list []velo.Cluster
	for ev := range events {
		truth := e.simulate(uint64(ev))
		c.tracks += float64(len(truth.Tracks))
		for i := range truth.Tracks {
			c.hits += float64(truth.Tracks[i].RHits + truth.Tracks[i].PhiHits)
		}
		for b := range 100 {
			list = e.appendBoardClusters(list[:0], b)
			c.clusters += float64(len(list))
			c.board[b] += float64(len(list))
			c.most = max(c.most, len(list))
			for _, k := range list {
				c.two += float64(k.Size() - 1)
			}
		}
	}
	c.events = float64(events)
	return c
}

// quiet has no noise that would pass the threshold.
func quiet(c *Config) { c.FrontEnd.Noise = 0.6 }

// TestDocumentsClusters holds the default to L1-farm §3.1 and §6.1.1: 1286 clusters of an event and 13 of
// a board without noise, 1800 with it, and an occupancy below one in a hundred.
func TestDocumentsClusters(t *testing.T) {
	events := cases.Count(1500.0, 250)
	signal, all := count(detector(t, quiet), 1, false, int(events)), count(detector(t, nil), 1, false, int(events))
	perEvent, perBoard := signal.clusters/events, signal.clusters/events/100
	t.Logf("%.0f clusters of an event, %.1f of a board, %.2f of two strips; with noise %.0f, at most %d of a board",
		perEvent, perBoard, signal.two/signal.clusters, all.clusters/events, all.most)
	within := 1286*3/math.Sqrt(3*events) + 30
	if math.Abs(perEvent-1286) > within || math.Abs(all.clusters/events-1800) > within {
		t.Errorf("%.0f clusters, %.0f with noise; the document has 1286 and 1800", perEvent, all.clusters/events)
	}
	if share := (all.clusters + all.two) / events / 204_800; share > 0.0125 {
		t.Errorf("%.2f %% of the strips have a hit", 100*share)
	}
}

// TestRawAndSuppressedAgree: with all strips sampled and prepared, or with noise drawn only where it is seen, the same
// events have the same numbers of clusters, on R and φ sensors, and as many of two strips. Where many particles pass
// one link, the raw way has a little fewer: charge below the threshold lifts the line that common mode takes away.
func TestRawAndSuppressedAgree(t *testing.T) {
	for _, c := range []struct {
		particles   float64
		events      int
		within, two float64
	}{{8, 150, 0.02, 0.08}, {Default().Collisions.Particles, 150, 0.025, 0.05}} {
		if testing.Short() {
			c.events /= 5
		}
		d := detector(t, func(k *Config) { k.Collisions.Particles = c.particles })
		raw, fast := count(d, 5, true, c.events), count(d, 5, false, c.events)
		if raw.tracks != fast.tracks || raw.hits != fast.hits {
			t.Fatalf("%g and %g particles: the truth differs", raw.tracks, fast.tracks)
		}
		t.Logf("raw %.1f clusters of an event, %.3f of two; suppressed %.1f, %.3f", raw.clusters/raw.events,
			raw.two/raw.clusters, fast.clusters/fast.events, fast.two/fast.clusters)
		if testing.Short() {
			c.within, c.two = 2*c.within, 2*c.two
		}
		near := func(what string, a, b, within float64) {
			if math.Abs(a/b-1) > within {
				t.Errorf("%s: %.4g raw and %.4g suppressed differ by more than %g", what, a, b, within)
			}
		}
		near("clusters", raw.clusters, fast.clusters, c.within)
		near("two strips", raw.two, fast.two, c.two)
		near("R clusters", sum(raw.board[:50]), sum(fast.board[:50]), 1.5*c.within)
		near("phi clusters", sum(raw.board[50:]), sum(fast.board[50:]), 1.5*c.within)
	}
}

func sum(list []float64) (n float64) {
	for _, v := range list {
		n += v
	}
	return n
}

// TestNoiseAlone: without particles the raw values give as many hits as the suppressed way draws.
func TestNoiseAlone(t *testing.T) {
	d := detector(t, func(c *Config) { c.Collisions = Collisions{Spread: []float64{0, 0, 0}} })
	raw, fast := count(d, 2, true, 40), count(d, 2, false, 40)
	want := 40 * 204_800 * d.hitChance * (1 - d.cfg.FrontEnd.BadChannels)
	for name, c := range map[string]counts{"raw": raw, "suppressed": fast} {
		if got := c.clusters + c.two; math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("%s: %.0f strips with a hit, want %.0f", name, got, want)
		}
	}
}

// TestHitsLieOnTracks: in an event of few particles without noise, every cluster of an R sensor is at the radius of a
// particle, and nearly every crossing gave a cluster.
func TestHitsLieOnTracks(t *testing.T) {
	d := detector(t, func(c *Config) {
		quiet(c)
		c.FrontEnd.RadiationFraction, c.Collisions.Particles, c.FrontEnd.BadChannels = 0, 8, 0
	})
	e := d.newSimulator(3, false)
	var list []velo.Cluster
	crossings, clusters, far := 0, 0, 0
	for ev := range uint64(300) {
		truth := e.simulate(ev)
		for i := range truth.Tracks {
			crossings += truth.Tracks[i].RHits
		}
		for b := range 50 {
			list = e.appendBoardClusters(list[:0], b)
			z := d.geo.Sensor(b).Z
			for _, c := range list {
				clusters++
				if nearest(truth, z, d.geo.Radius(c)) > 0.1 {
					far++
				}
			}
		}
	}
	if far > clusters/100 || clusters < crossings*95/100 || clusters > crossings*13/10 {
		t.Errorf("%d clusters of %d crossings, %d away from every particle", clusters, crossings, far)
	}
}

// nearest is how far the nearest particle passes from radius r at z, in mm.
func nearest(t *Truth, z, r float64) float64 {
	best := math.Inf(1)
	for _, k := range t.Tracks {
		v := t.Vertices[k.Vertex]
		within := 0.15 * math.Hypot(k.TX, k.TY) // half of the way along the sensor, in 0.3 mm of silicon
		best = min(best, math.Abs(math.Hypot(v.X+k.TX*(z-v.Z), v.Y+k.TY*(z-v.Z))-r)-within)
	}
	return best
}

// TestTruth: displaced events have two decays of B mesons, some millimetres away from the collision.
func TestTruth(t *testing.T) {
	e := detector(t, nil).newSimulator(8, false)
	displaced, flight, decays := 0, 0.0, 0
	for ev := range uint64(2000) {
		truth := e.simulate(ev)
		have := 0
		for _, v := range truth.Vertices {
			if v.Origin == OriginBeauty {
				have++
				p := truth.Vertices[0]
				flight += math.Sqrt((v.X-p.X)*(v.X-p.X) + (v.Y-p.Y)*(v.Y-p.Y) + (v.Z-p.Z)*(v.Z-p.Z))
			}
		}
		if truth.Event != ev || truth.Displaced != (have == 2) || have == 1 {
			t.Fatalf("event %d, displaced %v, %d decays", truth.Event, truth.Displaced, have)
		}
		if truth.Displaced {
			displaced++
			decays += have
		}
	}
	if mean := flight / float64(decays); displaced < 60 || displaced > 145 || mean < 2 || mean > 15 {
		t.Errorf("%d of 2000 events are displaced, by %.1f mm in the mean", displaced, mean)
	}
}

func TestRefusedConfigurations(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(c *Config)
	}{
		{"front-end.noise", func(c *Config) { c.FrontEnd.Noise = 0 }},
		{"front-end.noise", func(c *Config) { c.FrontEnd.Noise = math.NaN() }},
		{"front-end.threshold", func(c *Config) { c.FrontEnd.Threshold = 300 }},
		{"collisions.spread", func(c *Config) { c.Collisions.Spread = nil }},
		{"collisions.particles", func(c *Config) { c.Collisions.Particles = 1e9 }},
		{"stations", func(c *Config) { c.Detector.Stations = nil }},
	} {
		k := Default()
		c.change(&k)
		_, err := New(k)
		var ce *ConfigError
		var le *velo.LayoutError
		if !errors.As(err, &ce) && !errors.As(err, &le) || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%v, want one of %s", err, c.field)
		}
	}
	if _, err := NewMaker(detector(t, nil), MakerConfig{FirstSource: 250, Streams: 7}); err == nil {
		t.Error("boards that no fragment can name were taken")
	}
}

func BenchmarkEvent(b *testing.B) {
	e := detector(b, nil).newSimulator(1, false)
	var list []velo.Cluster
	b.ReportAllocs()
	for ev := uint64(0); b.Loop(); ev++ {
		e.simulate(ev)
		list = list[:0]
		for board := range 100 {
			list = e.appendBoardClusters(list, board)
		}
	}
}

func BenchmarkRawEvent(b *testing.B) {
	e := detector(b, nil).newSimulator(1, true)
	var list []velo.Cluster
	for ev := uint64(0); b.Loop(); ev++ {
		e.simulate(ev)
		list = list[:0]
		for board := range 100 {
			list = e.appendBoardClusters(list, board)
		}
	}
}
