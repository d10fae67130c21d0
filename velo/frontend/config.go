package frontend

import (
	"fmt"
	"math"

	"ringlet/velo"
)

// Config describes the detector, its front-end and the collisions. The yaml tags are the keys of the file that
// describes a detector.
type Config struct {
	Detector   velo.Layout `yaml:"detector"`
	FrontEnd   FrontEnd    `yaml:"front-end"`
	Collisions Collisions  `yaml:"collisions"`
}

// FrontEnd describes how the front-end turns charge into clusters. Amplitudes are counts of the 8-bit converter.
type FrontEnd struct {
	Signal            float64 `yaml:"signal"`          // most probable amplitude of a particle that passes at a right angle
	Noise             float64 `yaml:"noise"`           // standard deviation of a strip
	Threshold         int     `yaml:"threshold"`       // an amplitude above it is a hit
	Pedestal          float64 `yaml:"pedestal"`        // mean of the strips' offsets
	PedestalSpread    float64 `yaml:"pedestal-spread"` // standard deviation from strip to strip
	CommonMode        float64 `yaml:"common-mode"`     // standard deviation of the level of a link's 32 strips
	BadChannels       float64 `yaml:"bad-channels"`    // share of strips that are faulty, and masked
	Thickness         float64 `yaml:"thickness"`       // of the silicon, mm
	Diffusion         float64 `yaml:"diffusion"`       // standard deviation of the charge's spreading, mm
	RadiationFraction float64 `yaml:"radiation-part"`  // of a radiation length, in each sensor: scattering
}

// Collisions describes the collisions of an event.
type Collisions struct {
	Particles float64   `yaml:"particles"` // mean number of charged particles of a collision, over all directions
	PileUp    float64   `yaml:"pile-up"`   // mean number of collisions besides the first
	Displaced float64   `yaml:"displaced"` // share of events with a pair of B mesons
	Strange   float64   `yaml:"strange"`   // mean number of neutral kaons of a collision
	Spread    []float64 `yaml:"spread"`    // standard deviation of the collision's place in x, y and z, mm
}

// Default is the document's detector, with noise and collisions tuned to the document's numbers of clusters.
func Default() Config {
	return Config{
		Detector: velo.Default(),
		FrontEnd: FrontEnd{
			Signal:            45,
			Noise:             2.36,
			Threshold:         6,
			Pedestal:          90,
			PedestalSpread:    8,
			CommonMode:        3,
			BadChannels:       0.002,
			Thickness:         0.3,
			Diffusion:         0.006,
			RadiationFraction: 0.0035,
		},
		Collisions: Collisions{
			Particles: 138,
			Displaced: 0.05,
			Strange:   1,
			Spread:    []float64{0.07, 0.07, 53},
		},
	}
}

// ConfigError says which field is wrong, and why.
type ConfigError struct {
	Field  string // as in the file
	Reason string
}

func (e *ConfigError) Error() string { return fmt.Sprintf("front-end: %s: %s", e.Field, e.Reason) }

func (c *Config) validate() error {
	f, k := &c.FrontEnd, &c.Collisions
	if len(k.Spread) != 3 {
		return &ConfigError{"collisions.spread", fmt.Sprintf("%d values are not the three of x, y and z", len(k.Spread))}
	}
	for _, v := range []struct {
		name     string
		v        float64
		low, top float64
	}{
		{"front-end.signal", f.Signal, 1, 1000},
		{"front-end.noise", f.Noise, 0.5, 50},
		{"front-end.threshold", float64(f.Threshold), 1, 255},
		{"front-end.pedestal", f.Pedestal, 0, 255},
		{"front-end.pedestal-spread", f.PedestalSpread, 0, 64},
		{"front-end.common-mode", f.CommonMode, 0, 64},
		{"front-end.bad-channels", f.BadChannels, 0, 1},
		{"front-end.thickness", f.Thickness, 0, 5},
		{"front-end.diffusion", f.Diffusion, 0, 1},
		{"front-end.radiation-part", f.RadiationFraction, 0, 1},
		{"collisions.particles", k.Particles, 0, 10_000},
		{"collisions.pile-up", k.PileUp, 0, 20},
		{"collisions.displaced", k.Displaced, 0, 1},
		{"collisions.strange", k.Strange, 0, 100},
		{"collisions.spread", k.Spread[0], 0, 100},
		{"collisions.spread", k.Spread[1], 0, 100},
		{"collisions.spread", k.Spread[2], 0, 1000},
	} {
		if !(v.v >= v.low && v.v <= v.top) {
			return &ConfigError{v.name, fmt.Sprintf("%g is not between %g and %g", v.v, v.low, v.top)}
		}
	}
	return nil
}

// Detector is a checked configuration with the values computed from it. It is immutable.
type Detector struct {
	cfg    Config
	geo    *velo.Geometry
	planes []plane // in the order of z

	innerRadius2    float64 // square of the radius of the innermost strips, mm²
	outerRadius2    float64 // square of the radius of the outermost strips, mm²
	halfEdgeCos     float64 // cosine of the azimuth where a half ends, or a little less
	commonModeLimit int     // amplitude, in counts, from which a strip is left out of the common mode
	preparedNoise   float64 // standard deviation of a prepared strip, counts
	hitChance       float64 // of a strip without charge
	noiseSkipScale  float64 // 1 / ln(1 - hitChance)
}

// plane is a sensor that a particle may cross.
type plane struct {
	board int
	z     float64
	kind  velo.Kind
	side  velo.Side
}

// New checks c. The error is a *ConfigError or a *velo.LayoutError.
func New(c Config) (*Detector, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	geo, err := velo.New(c.Detector)
	if err != nil {
		return nil, err
	}
	d := &Detector{cfg: c, geo: geo}
	for b := range geo.Boards() {
		s := geo.Sensor(b)
		d.planes = append(d.planes, plane{
			board: b,
			z:     s.Z,
			kind:  s.Kind,
			side:  s.Side,
		})
	}
	sortPlanes(d.planes)
	f, inner := &c.FrontEnd, min(c.Detector.R.InnerRadius, c.Detector.Phi.Zones[0].InnerRadius)
	d.innerRadius2 = inner * inner
	_, outer := geo.Radii()
	outer = max(outer, c.Detector.Phi.Zones[len(c.Detector.Phi.Zones)-1].OuterRadius)
	d.outerRadius2 = outer * outer
	d.halfEdgeCos = math.Cos(c.Detector.Span*math.Pi/360) - 0.01
	// The noise of a strip after the preparation: the line through the strips of a link removes two of 32 degrees of
	// freedom, and the rounding of values and pedestals adds noise. Raw data give the same within 0.3 %, for noise from
	// 2.1 to 3 and thresholds from 5 to 7 (2026-11-24).
	d.preparedNoise = math.Sqrt(f.Noise*f.Noise*(1-2.0/stripsPerLink) + 1.0/6)
	d.commonModeLimit = int(math.Ceil(3 * f.Noise))
	d.hitChance = math.Erfc((float64(f.Threshold)+0.5)/d.preparedNoise/math.Sqrt2) / 2
	d.noiseSkipScale = 1 / math.Log1p(-d.hitChance)
	return d, nil
}

// Config is the configuration of the detector.
func (d *Detector) Config() Config { return d.cfg }

// Geometry is the geometry of the sensors and their strips.
func (d *Detector) Geometry() *velo.Geometry { return d.geo }
