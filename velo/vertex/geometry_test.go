package vertex

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/velo"
)

// few is a detector with half of the stations, and strips twice as wide.
func few() velo.Layout {
	l := velo.Default()
	l.Stations = l.Stations[:0]
	for i := range 14 {
		l.Stations = append(l.Stations, -160+45*float64(i))
	}
	l.R.Strips, l.R.InnerPitch, l.R.OuterPitch = 256, 0.08, 0.184
	l.Phi.Zones[0].Strips, l.Phi.Zones[1].Strips = 340, 680
	return l
}

// other is a detector with more sectors and one zone in place of two, whose φ sensors stand before the R sensors, with
// no stereo angle.
func other() velo.Layout {
	l := velo.Default()
	l.PhiShift, l.LeftShift, l.Span = -12, -7, 190
	l.R = velo.RLayout{InnerRadius: 6, Sectors: 6, Strips: 340, InnerPitch: 0.05, OuterPitch: 0.15}
	l.Phi.Zones = []velo.PhiZone{{InnerRadius: 5, OuterRadius: 45, Strips: 2048}}
	return l
}

// wide is a detector whose sectors are as wide as can be, with three zones that leave a gap.
func wide() velo.Layout {
	l := velo.Default()
	l.R.Sectors = 2
	l.Phi.Zones = []velo.PhiZone{
		{InnerRadius: 8, OuterRadius: 14, Strips: 600, Stereo: 15},
		{InnerRadius: 15, OuterRadius: 25, Strips: 700, Stereo: -15},
		{InnerRadius: 25, OuterRadius: 40, Strips: 748, Stereo: 5},
	}
	return l
}

// TestOtherGeometries holds that the search is not made for one detector alone.
func TestOtherGeometries(t *testing.T) {
	for _, tt := range []struct {
		name   string
		layout velo.Layout
		found  float64 // share of the decays, at least
	}{
		{"few", few(), 0.15}, {"other", other(), 0.25}, {"wide", wide(), 0.2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := velo.New(tt.layout)
			must.OK(t, err)
			events := cases.Count(200, 80)
			s := searched(t, newToyOf(g, 7), events)
			if s.primary < 2*events*97/100 || s.accepted < int(tt.found*float64(events)) || s.kept > events/20 {
				t.Errorf("%+v of %d events each", s, events)
			}
		})
	}
}

// TestWhatCannotBeSearchedIsRefused holds that a detector says what it lacks.
func TestWhatCannotBeSearchedIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*velo.Layout)
		field  string
		needs  string
	}{
		"two stations":  {func(l *velo.Layout) { l.Stations = l.Stations[:2] }, "stations", "give 3 or more"},
		"one sector":    {func(l *velo.Layout) { l.R.Sectors = 1 }, "r.sectors", "give 2 sectors or more"},
		"wide r strips": {func(l *velo.Layout) { l.R.Strips, l.R.OuterPitch = 20, 2 }, "r.outer-pitch", "0.5 mm or less"},
		"wide φ strips": {func(l *velo.Layout) { l.Phi.Zones[1].Strips = 200 }, "phi.zones", "more strips"},
		"φ elsewhere": {func(l *velo.Layout) {
			l.Phi.Zones = []velo.PhiZone{{InnerRadius: 60, OuterRadius: 70, Strips: 2000}}
		}, "phi.zones", "between 8 and"},
	} {
		t.Run(name, func(t *testing.T) {
			l := velo.Default()
			tt.change(&l)
			g, err := velo.New(l)
			must.OK(t, err)
			_, err = NewDetector(g)
			var lacks *GeometryError
			if !errors.As(err, &lacks) || lacks.Field != tt.field || !strings.Contains(err.Error(), tt.needs) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestAnyGeometry holds that a geometry that a detector accepts is searched without harm, or refused.
func TestAnyGeometry(t *testing.T) {
	searched, layouts := 0, cases.Count(300, 60)
	for seed := range uint64(layouts) {
		rng := rand.New(rand.NewPCG(seed, 9))
		between := func(low, top float64) float64 { return low + (top-low)*rng.Float64() }
		l := velo.Layout{
			LeftShift: between(-100, 100),
			PhiShift:  between(-100, 100),
			Span:      between(10, 359),
			R: velo.RLayout{
				InnerRadius: between(0.01, 20),
				Sectors:     1 + rng.IntN(8),
				Strips:      2 + rng.IntN(254),
				InnerPitch:  between(0.01, 0.1),
			},
		}
		l.R.OuterPitch = l.R.InnerPitch + between(0, 0.4)
		z := -between(0, 500)
		for range 1 + rng.IntN(64) {
			l.Stations = append(l.Stations, z)
			z += between(0.1, 80)
		}
		r := between(0.01, 20)
		for range 1 + rng.IntN(4) {
			zone := velo.PhiZone{InnerRadius: r, OuterRadius: r + between(0.1, 30), Strips: 300 + rng.IntN(212)}
			zone.Stereo = between(-60, 60)
			l.Phi.Zones = append(l.Phi.Zones, zone)
			r = zone.OuterRadius + between(0, 2)
		}
		g, err := velo.New(l)
		must.OK(t, err)
		d, err := NewDetector(g)
		if err != nil {
			continue
		}
		searched++
		f, toy := NewFinder(d), newToyOf(g, seed)
		boards, _ := toy.event(1, true)
		f.load(t, boards)
		res := f.Find(nil)
		f.Verdict(&res)
		if res.HasSecondary && (math.IsNaN(res.Secondary.Score) || math.IsNaN(res.Secondary.Z)) {
			t.Errorf("seed %d: %+v", seed, res.Secondary)
		}
	}
	t.Logf("%d of %d layouts were searched", searched, layouts)
	if searched < layouts/10 {
		t.Error("too few")
	}
}
