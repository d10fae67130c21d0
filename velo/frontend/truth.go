package frontend

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Origin is the kind of a vertex.
type Origin string

// The kinds of vertices.
const (
	OriginCollision Origin = "collision" // of two protons: primary
	OriginBeauty    Origin = "beauty"    // decay of a B meson: what a filter looks for
	OriginStrange   Origin = "strange"   // decay of a neutral kaon: displaced, and not looked for
)

// Vertex is a point from which particles come, in mm.
type Vertex struct {
	Origin Origin  `json:"origin"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Z      float64 `json:"z"`
}

// Track is a charged particle.
type Track struct {
	Vertex  int     `json:"vertex"`   // index
	TX      float64 `json:"tx"`       // dx/dz where it begins
	TY      float64 `json:"ty"`       // dy/dz
	Forward bool    `json:"forward"`  // towards larger z
	P       float64 `json:"p"`        // momentum, GeV
	RHits   int     `json:"r_hits"`   // R sensors that it left charge in
	PhiHits int     `json:"phi_hits"` // φ sensors
}

// Truth describes what the simulation drew at random for one event: the vertices and the particles. It is not part of
// the event's data, so a filter never gets it.
type Truth struct {
	Event     uint64   `json:"event"`
	Displaced bool     `json:"displaced"` // the event has a decay of a B meson
	Vertices  []Vertex `json:"vertices"`
	Tracks    []Track  `json:"tracks"`
}

// species is a kind of particle that decays away from the collision.
type species struct {
	origin           Origin
	mass             float64 // GeV
	meanProperLength float64 // mean proper length, mm
	meanPT           float64 // mean transverse momentum, GeV
	minEta, maxEta   float64 // pseudorapidities
	minDaughters     int     // charged particles of a decay
	maxDaughters     int
	restMomentum     float64 // momentum of each of two daughters in the rest frame, GeV; n daughters have 2/n of it
}

var (
	beautySpecies = species{
		origin:           OriginBeauty,
		mass:             5.279,
		meanProperLength: 0.455,
		meanPT:           4.5,
		minEta:           1.8,
		maxEta:           4.9,
		minDaughters:     2,
		maxDaughters:     5,
		restMomentum:     2.6,
	}
	strangeSpecies = species{
		origin:           OriginStrange,
		mass:             0.4976,
		meanProperLength: 26.84,
		meanPT:           0.7,
		minEta:           -4,
		maxEta:           4.5,
		minDaughters:     2,
		maxDaughters:     2,
		restMomentum:     0.206,
	}
)

const (
	pionMass  = 0.1396 // GeV
	meanPT    = 0.45   // mean transverse momentum of a particle of the collision, GeV
	minEta    = -4.5   // pseudorapidities of particles of the collision: the range of the sensors, and more
	maxEta    = 5.0
	minAbsEta = 0.25 // particles at steeper angles leave the beam pipe between stations
)

// randomSource is a generator of random numbers; seedFor seeds it for a purpose: a board, or the particles.
type randomSource struct {
	pcg rand.PCG
	*rand.Rand
}

func newRandomSource() *randomSource {
	s := &randomSource{}
	s.Rand = rand.New(&s.pcg)
	return s
}

// mix is the finaliser of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// particlePurpose is the purpose of the particles: no board has this number.
const particlePurpose = 1 << 32

// seedFor starts the sequence of an event and a purpose.
func (s *randomSource) seedFor(seed, ev, purpose uint64) {
	s.pcg.Seed(mix(seed+0x9e3779b97f4a7c15), mix(mix(ev+1)+purpose*0xd1b54a32d192ed03))
}

// drawPoisson draws from a Poisson distribution with a small mean.
func (s *randomSource) drawPoisson(mean float64) int {
	n, limit := 0, math.Exp(-mean)
	for p := s.Float64(); p > limit && n < 1000; n++ {
		p = float64(p * s.Float64())
	}
	return n
}

// drawDirection draws a pseudorapidity from low to top, without those below minAbsEta, and an azimuth.
func (s *randomSource) drawDirection(low, top float64) (eta, phi float64) {
	for {
		if eta = low + float64((top-low)*s.Float64()); math.Abs(eta) > minAbsEta {
			return eta, float64(2 * math.Pi * s.Float64())
		}
	}
}

// generate draws the vertices and particles of event ev.
func (t *Truth) generate(d *Detector, s *randomSource, seed, ev uint64) {
	k := &d.cfg.Collisions
	s.seedFor(seed, ev, particlePurpose)
	*t = Truth{
		Event:     ev,
		Displaced: s.Float64() < k.Displaced,
		Vertices:  t.Vertices[:0],
		Tracks:    t.Tracks[:0],
	}
	for i := range 1 + s.drawPoisson(k.PileUp) {
		at := Vertex{
			Origin: OriginCollision,
			X:      float64(k.Spread[0] * s.NormFloat64()),
			Y:      float64(k.Spread[1] * s.NormFloat64()),
			Z:      float64(k.Spread[2] * s.NormFloat64()),
		}
		t.Vertices = append(t.Vertices, at)
		primary := len(t.Vertices) - 1
		for range s.drawMultiplicity(k.Particles) {
			eta, phi := s.drawDirection(minEta, maxEta)
			pt := 0.05 + float64((meanPT-0.05)*s.ExpFloat64())
			t.addTrack(primary, eta, phi, pt)
		}
		for range s.drawPoisson(k.Strange) {
			t.addDecay(s, &strangeSpecies, at)
		}
		if i == 0 && t.Displaced {
			t.addDecay(s, &beautySpecies, at)
			t.addDecay(s, &beautySpecies, at)
		}
	}
}

// drawMultiplicity draws the number of particles of a collision: a sum of three exponentials, so that the spread is
// 1/√3 of the mean, which is about that of the document's figure 6.3.
func (s *randomSource) drawMultiplicity(mean float64) int {
	sum := s.ExpFloat64() + s.ExpFloat64() + s.ExpFloat64()
	return int(float64(mean*sum)/3 + 0.5)
}

// addTrack appends a particle from a vertex.
func (t *Truth) addTrack(vertex int, eta, phi, pt float64) {
	sinh := math.Sinh(eta)
	sin, cos := math.Sincos(phi)
	t.Tracks = append(t.Tracks, Track{
		Vertex:  vertex,
		TX:      cos / sinh,
		TY:      sin / sinh,
		Forward: eta > 0,
		P:       pt * math.Cosh(eta),
	})
}

// vector is a momentum or a direction.
type vector [3]float64

// addDecay draws a particle of species k from the vertex at, its flight, and its decay.
func (t *Truth) addDecay(s *randomSource, k *species, at Vertex) {
	eta, phi := s.drawDirection(k.minEta, k.maxEta)
	pt := float64(k.meanPT * s.ExpFloat64())
	sin, cos := math.Sincos(phi)
	p := vector{pt * cos, pt * sin, pt * math.Sinh(eta)}
	size := pt * math.Cosh(eta)
	length := float64(k.meanProperLength*s.ExpFloat64()) / k.mass // flight for a momentum of 1 GeV
	t.Vertices = append(t.Vertices, Vertex{
		Origin: k.origin,
		X:      at.X + float64(length*p[0]),
		Y:      at.Y + float64(length*p[1]),
		Z:      at.Z + float64(length*p[2]),
	})
	vertex := len(t.Vertices) - 1
	n := k.minDaughters + s.IntN(k.maxDaughters-k.minDaughters+1)
	rest := k.restMomentum * 2 / float64(n)
	var first vector
	for i := range n {
		u := s.drawUnitVector()
		if n == 2 && i == 1 {
			u = vector{-first[0], -first[1], -first[2]} // back to back
		}
		first = u
		t.addDaughter(vertex, k, p, size, u, rest)
	}
}

// drawUnitVector draws a direction.
func (s *randomSource) drawUnitVector() vector {
	z := float64(2*s.Float64()) - 1
	sin, cos := math.Sincos(float64(2 * math.Pi * s.Float64()))
	r := math.Sqrt(max(0, 1-float64(z*z)))
	return vector{r * cos, r * sin, z}
}

// addDaughter appends a particle of a decay. In the rest frame of the parent, whose momentum is p with the absolute
// value size, it has the direction u and the momentum rest.
func (t *Truth) addDaughter(vertex int, k *species, p vector, size float64, u vector, rest float64) {
	energy := math.Sqrt(float64(rest*rest) + pionMass*pionMass)
	along := 0.0
	var n vector
	for i := range n {
		n[i] = p[i] / max(size, 1e-9)
		along += float64(n[i] * u[i])
	}
	gamma := math.Sqrt(1 + float64(size/k.mass*size/k.mass))
	boosted := float64(gamma*float64(rest*along)) + float64(size/k.mass*energy)
	var q vector
	total := 0.0
	for i := range q {
		q[i] = float64(boosted*n[i]) + float64(rest*(u[i]-float64(along*n[i])))
		total += float64(q[i] * q[i])
	}
	if math.Abs(q[2]) < 1e-6 {
		return // it crosses no sensor
	}
	t.Tracks = append(t.Tracks, Track{
		Vertex:  vertex,
		TX:      q[0] / q[2],
		TY:      q[1] / q[2],
		Forward: q[2] > 0,
		P:       math.Sqrt(total),
	})
}

// sortPlanes sorts sensors by z, and those at the same z by board.
func sortPlanes(planes []plane) {
	slices.SortFunc(planes, func(a, b plane) int {
		return cmp.Or(cmp.Compare(a.z, b.z), cmp.Compare(a.board, b.board))
	})
}
