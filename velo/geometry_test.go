package velo

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func detector(t testing.TB, l Layout) *Geometry {
	t.Helper()
	g, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestDefaultDetector holds the detector to the figures of the document: 204,800 channels in 100 sensors, from 8 mm to
// 42 mm, and the pitches of both kinds of sensor.
func TestDefaultDetector(t *testing.T) {
	g := detector(t, Default())
	channels := 0
	for b := range g.Boards() {
		channels += g.Strips(b)
		s := g.Sensor(b)
		if got := g.BoardOf(s.Kind, s.Station, s.Side); got != b {
			t.Errorf("board %d is a sensor whose board is %d", b, got)
		}
		if want := b < 50; (s.Kind == R) != want {
			t.Errorf("board %d is of a %v sensor", b, s.Kind)
		}
	}
	inner, outer := g.Radii()
	if channels != 204_800 || inner != 8 || math.Abs(outer-42) > 0.25 {
		t.Errorf("%d channels from %g mm to %g mm", channels, inner, outer)
	}
	if p, q := g.Pitch(0), g.Pitch(511); math.Abs(p-0.040) > 1e-9 || math.Abs(q-0.092) > 1e-9 {
		t.Errorf("R pitches from %g to %g mm", p, q)
	}
	for _, c := range []struct{ strip, radius, want float64 }{{0, 8, 0.037}, {2047, 42, 0.098}} {
		if got := g.StripAngle(int(c.strip)) * c.radius; math.Abs(got-c.want) > 0.0005 {
			t.Errorf("the phi pitch at %g mm is %g mm, want %g", c.radius, got, c.want)
		}
	}
}

// TestPlaces: where a point lies, the strip found there lies too, for each kind, station and half.
func TestPlaces(t *testing.T) {
	g := detector(t, Default())
	r := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 50_000 {
		board := r.IntN(g.Boards())
		s := g.Sensor(board)
		radius, phi := 7+36*r.Float64(), s.FirstAzimuth-0.1+(s.LastAzimuth-s.FirstAzimuth+0.2)*r.Float64()
		at, ok := g.LocateR(board, radius, phi)
		if s.Kind == Phi {
			at, ok = g.LocatePhi(board, radius, phi)
		}
		if !ok {
			continue
		}
		found++
		if at.Strip < at.FirstStrip || at.Strip >= at.EndStrip || at.EndStrip > g.Strips(board) ||
			!(at.Fraction >= 0 && at.Fraction <= 1) {
			t.Fatalf("board %d, %g mm, %g rad: %+v", board, radius, phi, at)
		}
		var off float64
		if s.Kind == R {
			off = radius - g.Radius(NewCluster(at.Strip, false))
			if _, first, last := g.Sector(board, at.Strip); phi < first-1e-12 || phi > last+1e-12 {
				t.Fatalf("%g rad is not in the sector from %g to %g", phi, first, last)
			}
		} else {
			off = (phi - g.ClusterAzimuth(board, NewCluster(at.Strip, false), radius)) * radius
			if in, out := g.ZoneRadii(at.Strip); radius < in || radius >= out {
				t.Fatalf("%g mm is not in the zone from %g to %g", radius, in, out)
			}
		}
		if want := (at.Fraction - 0.5) * at.Pitch; math.Abs(off-want) > 1e-9 {
			t.Fatalf("board %d: %g mm from the middle of strip %d, want %g", board, off, at.Strip, want)
		}
	}
	if found < 40_000 {
		t.Errorf("%d points are on a sensor", found)
	}
}

// TestTwoStrips: a cluster of two is at the border of its strips.
func TestTwoStrips(t *testing.T) {
	g := detector(t, Default())
	one, next, two := NewCluster(600, false), NewCluster(601, false), NewCluster(600, true)
	border := g.Radius(one) + g.Pitch(600)/2
	if got := g.Radius(two); math.Abs(got-border) > 1e-9 || got >= g.Radius(next) {
		t.Errorf("%g mm, want %g", got, border)
	}
	if got, want := g.ClusterAzimuth(60, two, 30), (g.ClusterAzimuth(60, one, 30)+g.ClusterAzimuth(60, next,
		30))/2; math.Abs(got-want) > 1e-12 {
		t.Errorf("%g rad, want %g", got, want)
	}
	for _, c := range []struct {
		kind   Kind
		strip  int
		joined bool
	}{{R, 510, true}, {R, 511, false}, {R, 2047, false}, {Phi, 682, false}, {Phi, 683, true}, {Phi, 2047, false}} {
		if g.AreNeighbours(c.kind, c.strip) != c.joined {
			t.Errorf("%v strip %d and the next: joined %v", c.kind, c.strip, !c.joined)
		}
	}
}

// TestStereoTurns: the azimuth along a strip changes to the other side in the next station.
func TestStereoTurns(t *testing.T) {
	g := detector(t, Default())
	c := NewCluster(1500, false)
	a := g.ClusterAzimuth(g.BoardOf(Phi, 4, Left), c, 40) - g.ClusterAzimuth(g.BoardOf(Phi, 4, Left), c, 17.2)
	b := g.ClusterAzimuth(g.BoardOf(Phi, 5, Left), c, 40) - g.ClusterAzimuth(g.BoardOf(Phi, 5, Left), c, 17.2)
	if a == 0 || math.Abs(a+b) > 1e-12 {
		t.Errorf("%g rad and %g rad", a, b)
	}
}

func TestRefusedLayouts(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(l *Layout)
	}{
		{"stations", func(l *Layout) { l.Stations = nil }},
		{"stations", func(l *Layout) { l.Stations = make([]float64, 65) }},
		{"stations", func(l *Layout) { l.Stations = []float64{1, 1} }},
		{"stations", func(l *Layout) { l.Stations = []float64{math.NaN()} }},
		{"span", func(l *Layout) { l.Span = 0 }},
		{"left-shift", func(l *Layout) { l.LeftShift = math.Inf(1) }},
		{"r.inner-radius", func(l *Layout) { l.R.InnerRadius = 0 }},
		{"r.strips", func(l *Layout) { l.R.Strips = 513 }},
		{"r.outer-pitch", func(l *Layout) { l.R.OuterPitch = 0.03 }},
		{"phi.zones", func(l *Layout) { l.Phi.Zones = nil }},
		{"phi.zones", func(l *Layout) { l.Phi.Zones = []PhiZone{{8, 42, 2049, 0}} }},
		{"phi.zones", func(l *Layout) { l.Phi.Zones = []PhiZone{{8, 20, 1000, 0}, {19, 42, 1000, 0}} }},
		{"phi.zones", func(l *Layout) { l.Phi.Zones = []PhiZone{{8, 20, 1100, 0}, {20, 42, 1100, 0}} }},
		{"phi.zones", func(l *Layout) { l.Phi.Zones = []PhiZone{{8, 20, 1100, 80}} }},
	} {
		l := Default()
		c.change(&l)
		_, err := New(l)
		var le *LayoutError
		if !errors.As(err, &le) || le.Field != c.field || !strings.Contains(err.Error(), "vertex detector: "+c.field) {
			t.Errorf("%v, want one of %s", err, c.field)
		}
	}
}
