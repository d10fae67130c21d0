package velo

import (
	"fmt"
	"math"
)

// Layout is the construction of a detector. Lengths are in mm, angles in degrees.
type Layout struct {
	// Stations are the places of the stations along the beam, in ascending order.
	Stations []float64 `yaml:"stations"`
	// LeftShift is the distance of the left half of a station behind the right one, so that the halves can overlap.
	LeftShift float64 `yaml:"left-shift"`
	// PhiShift is the distance of the φ sensor of a half behind its R sensor.
	PhiShift float64 `yaml:"phi-shift"`
	// Span is the angle that a sensor covers; more than 180 makes the halves overlap.
	Span float64   `yaml:"span"`
	R    RLayout   `yaml:"r"`
	Phi  PhiLayout `yaml:"phi"`
}

// RLayout is a sensor that measures the radius: Sectors side by side in azimuth, each with Strips arcs.
type RLayout struct {
	InnerRadius float64 `yaml:"inner-radius"`
	Sectors     int     `yaml:"sectors"`
	Strips      int     `yaml:"strips"` // of a sector
	// InnerPitch and OuterPitch are the pitches of the first and of the last strip. The pitch grows by the same step from
	// strip to strip.
	InnerPitch float64 `yaml:"inner-pitch"`
	OuterPitch float64 `yaml:"outer-pitch"`
}

// PhiLayout is a sensor that measures the azimuth: zones one around the other, each with straight strips side by side.
type PhiLayout struct {
	Zones []PhiZone `yaml:"zones"`
}

// PhiZone is a zone. Stereo is the angle between the inner end of a strip and the radius; it has the opposite sign in
// every second station.
type PhiZone struct {
	InnerRadius float64 `yaml:"inner-radius"`
	OuterRadius float64 `yaml:"outer-radius"`
	Strips      int     `yaml:"strips"`
	Stereo      float64 `yaml:"stereo"`
}

// Default is the detector of L1-farm §3.1: 25 stations of four sensors with 2048 strips, from 8 mm to 42
// mm and over 182°, pitches from 40 µm to 92 µm (R) and from 37 µm to 98 µm (φ). Where the stations stand, how the
// strips are divided into sectors and zones, and the stereo angles are our choice within these figures.
func Default() Layout {
	l := Layout{
		LeftShift: 15,
		PhiShift:  2,
		Span:      182,
		R: RLayout{
			InnerRadius: 8,
			Sectors:     4,
			Strips:      512,
			InnerPitch:  0.040,
			OuterPitch:  0.092,
		},
		Phi: PhiLayout{Zones: []PhiZone{
			{
				InnerRadius: 8,
				OuterRadius: 17.2,
				Strips:      683,
				Stereo:      20,
			},
			{
				InnerRadius: 17.2,
				OuterRadius: 42,
				Strips:      1365,
				Stereo:      -10,
			},
		}},
	}
	for i := range 17 {
		l.Stations = append(l.Stations, -175+30*float64(i))
	}
	l.Stations = append(l.Stations, 350, 400, 450, 500, 550, 600, 675, 750)
	return l
}

// LayoutError says which field of a layout is wrong, and why.
type LayoutError struct {
	Field  string // as in the file
	Reason string
}

func (e *LayoutError) Error() string {
	return fmt.Sprintf("vertex detector: %s: %s", e.Field, e.Reason)
}

// maxLength bounds every length in a layout, in mm: a larger one is a mistake in the unit.
const maxLength = 10_000

func (l *Layout) validate() error {
	if n := len(l.Stations); n < 1 || 4*n > MaxBoards {
		return &LayoutError{"stations", fmt.Sprintf("%d stations are not between 1 and %d", n, MaxBoards/4)}
	}
	for i, z := range l.Stations {
		if !(math.Abs(z) <= maxLength) {
			return &LayoutError{"stations", fmt.Sprintf("%g mm is not within %d mm of the middle", z, maxLength)}
		}
		if i > 0 && !(z > l.Stations[i-1]) {
			return &LayoutError{"stations", fmt.Sprintf("%g mm follows %g mm: give them in ascending order", z,
				l.Stations[i-1])}
		}
	}
	for _, f := range []struct {
		name     string
		v        float64
		low, top float64
	}{
		{"left-shift", l.LeftShift, -maxLength, maxLength},
		{"phi-shift", l.PhiShift, -maxLength, maxLength},
		{"span", l.Span, 1, 359},
	} {
		if !(f.v >= f.low && f.v <= f.top) {
			return &LayoutError{f.name, fmt.Sprintf("%g is not between %g and %g", f.v, f.low, f.top)}
		}
	}
	if err := l.R.validate(); err != nil {
		return err
	}
	return l.Phi.validate()
}

func (r *RLayout) validate() error {
	switch {
	case !(r.InnerRadius > 0 && r.InnerRadius <= maxLength):
		return &LayoutError{"r.inner-radius", fmt.Sprintf("%g mm is not between 0 and %d", r.InnerRadius, maxLength)}
	case r.Sectors < 1 || r.Strips < 2 || r.Sectors > MaxStrips || r.Strips > MaxStrips || r.Sectors*r.Strips > MaxStrips:
		return &LayoutError{"r.strips",
			fmt.Sprintf("%d sectors of %d strips are not at least one of 2, and at most %d strips", r.Sectors, r.Strips,
				MaxStrips)}
	case !(r.InnerPitch > 0 && r.OuterPitch >= r.InnerPitch && r.OuterPitch < 100):
		return &LayoutError{"r.outer-pitch", fmt.Sprintf("pitches from %g mm to %g mm do not grow from more than 0 to less "+
			"than 100", r.InnerPitch, r.OuterPitch)}
	}
	return nil
}

func (p *PhiLayout) validate() error {
	all := 0
	if len(p.Zones) < 1 || len(p.Zones) > 16 {
		return &LayoutError{"phi.zones", fmt.Sprintf("%d zones are not between 1 and 16", len(p.Zones))}
	}
	for i, z := range p.Zones {
		switch {
		case !(z.InnerRadius > 0 && z.OuterRadius > z.InnerRadius && z.OuterRadius <= maxLength):
			return &LayoutError{"phi.zones", fmt.Sprintf("zone %d from %g mm to %g mm is none within %d mm", i, z.InnerRadius,
				z.OuterRadius, maxLength)}
		case i > 0 && z.InnerRadius < p.Zones[i-1].OuterRadius:
			return &LayoutError{"phi.zones", fmt.Sprintf("zone %d begins at %g mm, within the zone before it", i,
				z.InnerRadius)}
		case z.Strips < 2 || z.Strips > MaxStrips:
			return &LayoutError{"phi.zones", fmt.Sprintf("zone %d has %d strips, not between 2 and %d", i, z.Strips, MaxStrips)}
		case !(math.Abs(z.Stereo) <= 60):
			return &LayoutError{"phi.zones", fmt.Sprintf("zone %d has a stereo angle of %g°, more than 60°", i, z.Stereo)}
		}
		all += z.Strips
	}
	if all > MaxStrips {
		return &LayoutError{"phi.zones", fmt.Sprintf("%d strips in all are more than the %d of a board", all, MaxStrips)}
	}
	return nil
}
