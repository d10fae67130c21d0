package frontend

import (
	"math"
	"sort"

	"ringlet/velo"
)

// simulator makes one event at a time, and holds its truth and the charge on the strips. One goroutine uses it. It
// reuses its memory, and stops allocating once that has grown.
type simulator struct {
	d                *Detector
	seed             uint64
	samplesAllStrips bool
	truth            Truth
	random           *randomSource
	boards           []charges
	adc              *converter // of raw data
}

// charges is the charge that particles have left on the strips of a board.
type charges struct {
	amplitudes [velo.MaxStrips]float32 // amplitude, in counts
	touched    []uint16                // strips with an amplitude
	badStrips  [velo.MaxStrips / 64]uint64
}

// newSimulator makes a simulator. With raw the boards sample and prepare every strip; otherwise only noise above the
// threshold is drawn.
func (d *Detector) newSimulator(seed uint64, raw bool) *simulator {
	e := &simulator{
		d:                d,
		seed:             seed,
		samplesAllStrips: raw,
		random:           newRandomSource(),
		boards:           make([]charges, d.geo.Boards()),
	}
	for b := range e.boards {
		e.random.seedFor(seed, 0, uint64(b)+2*particlePurpose)
		for strip := range d.geo.Strips(b) {
			if e.random.Float64() < d.cfg.FrontEnd.BadChannels {
				e.boards[b].badStrips[strip/64] |= 1 << (strip % 64)
			}
		}
	}
	if raw {
		e.adc = newConverter(d, seed, e.random)
	}
	return e
}

// simulate draws event ev and the charge of its particles. The truth is valid until the next call.
func (e *simulator) simulate(ev uint64) *Truth {
	for b := range e.boards {
		c := &e.boards[b]
		for _, strip := range c.touched {
			c.amplitudes[strip] = 0
		}
		c.touched = c.touched[:0]
	}
	e.truth.generate(e.d, e.random, e.seed, ev)
	for i := range e.truth.Tracks {
		e.propagate(&e.truth.Tracks[i])
	}
	return &e.truth
}

// propagate moves a particle through the sensors.
func (e *simulator) propagate(t *Track) {
	v := &e.truth.Vertices[t.Vertex]
	planes := e.d.planes
	slope := math.Sqrt(float64(t.TX*t.TX) + float64(t.TY*t.TY))
	step, at := 1, sort.Search(len(planes), func(i int) bool { return planes[i].z > v.Z })
	if !t.Forward {
		step = -1
		at--
	}
	x, y, z, tx, ty := v.X, v.Y, v.Z, t.TX, t.TY
	path := math.Sqrt(1 + float64(slope*slope))
	kick := 0.0136 / max(t.P, 0.01) * math.Sqrt(float64(e.d.cfg.FrontEnd.RadiationFraction*path)) * path * path
	for ; at >= 0 && at < len(planes); at += step {
		p := &planes[at]
		dz := p.z - z
		x, y, z = x+float64(tx*dz), y+float64(ty*dz), p.z
		square := float64(x*x) + float64(y*y)
		if square > e.d.outerRadius2 {
			return
		}
		if square < e.d.innerRadius2 {
			continue
		}
		if e.crossSensor(t, p, x, y, tx, ty, path) && kick > 1e-7 {
			tx += float64(kick * e.random.NormFloat64())
			ty += float64(kick * e.random.NormFloat64())
		}
	}
}

// crossSensor deposits the charge of a particle that crosses a sensor at x, y. It returns false if the sensor has no
// strip there.
func (e *simulator) crossSensor(t *Track, p *plane, x, y, tx, ty, path float64) bool {
	r := math.Sqrt(float64(x*x) + float64(y*y))
	if toward := x * float64(1-2*int(p.side)); toward < float64(r*e.d.halfEdgeCos) {
		return false // the particle passes beside this half
	}
	phi := math.Atan2(y, x)
	if p.side == velo.Left && phi < 0 {
		phi += 2 * math.Pi
	}
	var at velo.StripPosition
	var ok bool
	var lean float64 // slope across the strips
	if p.kind == velo.R {
		at, ok = e.d.geo.LocateR(p.board, r, phi)
		lean = (float64(x*tx) + float64(y*ty)) / r
	} else {
		at, ok = e.d.geo.LocatePhi(p.board, r, phi)
		lean = (float64(x*ty) - float64(y*tx)) / r
	}
	if !ok {
		return false
	}
	f := &e.d.cfg.FrontEnd
	width := float64(f.Thickness*math.Abs(lean)) + float64(2*math.Sqrt(3)*f.Diffusion)
	e.boards[p.board].deposit(at, width/at.Pitch, float64(e.drawAmplitude()*path))
	if p.kind == velo.R {
		t.RHits++
	} else {
		t.PhiHits++
	}
	return true
}

// drawAmplitude draws the amplitude of a particle: Moyal's form of the Landau distribution, -ln(n²) for a normal n.
func (e *simulator) drawAmplitude() float64 {
	const spread = 0.09 // scale over most probable value in 300 µm of silicon
	n := e.random.NormFloat64()
	tail := -math.Log(max(float64(n*n), 1e-9))
	return e.d.cfg.FrontEnd.Signal * (1 + float64(spread*tail))
}

// deposit spreads an amplitude evenly over a width, in strips, around the position at.
func (c *charges) deposit(at velo.StripPosition, width, amplitude float64) {
	low := float64(at.Strip) + at.Fraction - width/2
	top := low + width
	first, last := max(int(math.Floor(low)), at.FirstStrip), min(int(math.Floor(top)), at.EndStrip-1)
	for s := first; s <= last; s++ {
		fraction := (min(top, float64(s+1)) - max(low, float64(s))) / width
		if width == 0 {
			fraction = 1
		}
		if c.amplitudes[s] == 0 {
			c.touched = append(c.touched, uint16(s))
		}
		c.amplitudes[s] += float32(amplitude * fraction)
	}
}

// appendBoardClusters appends the clusters of a board to dst, for the event that simulate has made.
func (e *simulator) appendBoardClusters(dst []velo.Cluster, board int) []velo.Cluster {
	if board >= len(e.boards) {
		return dst // a source beyond the detector's boards has no clusters
	}
	var hits hitMask
	if e.samplesAllStrips {
		e.adc.sampleHits(&hits, e, board)
	} else {
		e.drawSuppressedHits(&hits, board)
	}
	return appendClusters(dst, &hits, e.d.geo, e.d.geo.Sensor(board).Kind)
}

// drawSuppressedHits draws the hits of a board without visiting strips that have none. A known share of the strips has
// noise above the threshold; the distance from one to the next is drawn from an exponential distribution.
func (e *simulator) drawSuppressedHits(hits *hitMask, board int) {
	d, c := e.d, &e.boards[board]
	e.random.seedFor(e.seed, e.truth.Event, uint64(board))
	strips := d.geo.Strips(board)
	for s := -1; ; {
		far := float64(e.random.ExpFloat64() * -d.noiseSkipScale)
		if far >= float64(strips) {
			break
		}
		if s += 1 + int(far); s >= strips {
			break
		}
		hits[s/64] |= 1 << (s % 64)
	}
	// A charge below the limit counts for the common mode: it lifts the line that is subtracted from all strips of the
	// link. Its own strip lifts the line most.
	var lift [velo.MaxStrips / stripsPerLink]float64
	limit := float64(d.commonModeLimit)
	for _, s := range c.touched {
		if v := float64(c.amplitudes[s]); v < limit {
			lift[s/stripsPerLink] += v / stripsPerLink
		}
	}
	least := float64(d.cfg.FrontEnd.Threshold) + 0.5
	for _, s := range c.touched {
		bit, v := uint64(1)<<(s%64), float64(c.amplitudes[s])
		if v < limit {
			v -= v / stripsPerLink
		}
		if v-lift[s/stripsPerLink]+float64(d.preparedNoise*e.random.NormFloat64()) > least {
			hits[s/64] |= bit
		} else {
			hits[s/64] &^= bit
		}
	}
	for i := range hits {
		hits[i] &^= c.badStrips[i]
	}
}
