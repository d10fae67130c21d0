package vertex

import (
	"fmt"
	"math"

	"ringlet/velo"
)

// GeometryError says why the search cannot work with a detector.
type GeometryError struct {
	Field  string // of velo.Layout, as in a detector's file
	Reason string // why, and which value would do
}

func (e *GeometryError) Error() string {
	return fmt.Sprintf("the vertex filter cannot search in this detector: %s: %s", e.Field, e.Reason)
}

const (
	// widestSector is the largest angle of a sector, in rad, with a little for rounding: the search takes all tracks of a
	// sector to go in the direction of its middle. It is half of a side that overlaps the other one by 5 degrees.
	widestSector = 95.1 * math.Pi / 180
	// widestStrip is the largest width of a strip, mm: a particle decays after some millimetres, and the impact parameters
	// of its daughters are some tenths of a millimetre.
	widestStrip = 0.5
	// pitchOfDefault is the width of the widest strips of the default detector, mm, for which the cuts were set.
	pitchOfDefault = 0.098
	// beamOffset is the usual distance of a collision from the axis, mm.
	beamOffset = 0.044
)

// checkGeometry returns a *GeometryError if the search cannot work with a geometry.
func checkGeometry(g *velo.Geometry) error {
	l := g.Layout()
	if n, least := len(l.Stations), minHits; n < least {
		return &GeometryError{"stations", fmt.Sprintf("there are %d, and a track is a line through hits at %d: give %d "+
			"or more", n, least, least)}
	}
	if w := sectorWidth(g); w > widestSector {
		return &GeometryError{"r.sectors", fmt.Sprintf("a sector spans %.0f degrees, and at most %.0f are searched as one: "+
			"give %d sectors or more", w*180/math.Pi, widestSector*180/math.Pi,
			int(math.Ceil(w*float64(l.R.Sectors)/widestSector)))}
	}
	if w := g.Pitch(l.R.Strips - 1); w > widestStrip {
		return &GeometryError{"r.outer-pitch", fmt.Sprintf("strips of %.2g mm say too little of where a track comes from: "+
			"give %g mm or less", w, widestStrip)}
	}
	inner, outer := g.Radii()
	covered := false
	for i, z := range l.Phi.Zones {
		if z.InnerRadius >= outer || z.OuterRadius <= inner {
			continue
		}
		covered = true
		if w := phiStripWidth(g, i); w > widestStrip {
			return &GeometryError{"phi.zones", fmt.Sprintf("the strips of zone %d become %.2g mm wide, and say too little "+
				"of where a track comes from: give more strips, so that they have %g mm or less", i, w, widestStrip)}
		}
	}
	if !covered {
		return &GeometryError{"phi.zones", fmt.Sprintf("no zone has radii between %.4g and %.4g mm, where the R sensors "+
			"measure: a track is looked for on both", inner, outer)}
	}
	return nil
}

// sectorWidth is the angle of a sector of an R sensor, rad.
func sectorWidth(g *velo.Geometry) float64 {
	_, low, high := g.Sector(g.BoardOf(velo.R, 0, velo.Right), 0)
	return high - low
}

// phiStripWidth is the largest width of a φ zone's strips within the radii of R sensors, mm.
func phiStripWidth(g *velo.Geometry, zone int) float64 {
	l := g.Layout()
	_, outer := g.Radii()
	z := l.Phi.Zones[zone]
	return min(z.OuterRadius, outer) * l.Span * math.Pi / 180 / float64(z.Strips)
}

// widestPitch is the width of the widest strips, mm.
func widestPitch(g *velo.Geometry) float64 {
	widest := g.Pitch(g.Layout().R.Strips - 1)
	for i := range g.Layout().Phi.Zones {
		widest = max(widest, phiStripWidth(g, i))
	}
	return widest
}
