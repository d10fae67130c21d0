package vertex

import (
	"math"
	"math/rand/v2"
	"slices"

	"ringlet/velo"
)

// toy is a detector that knows of straight lines and borders of strips alone: what the search is made for, without the
// physics that package frontend simulates.
type toy struct {
	g    *velo.Geometry
	rng  *rand.Rand
	hits []map[velo.Cluster]bool // by board
}

func newToy(seed uint64) *toy {
	g, err := velo.New(velo.Default())
	if err != nil {
		panic(err)
	}
	return newToyOf(g, seed)
}

func newToyOf(g *velo.Geometry, seed uint64) *toy {
	return &toy{g: g, rng: rand.New(rand.NewPCG(seed, 1))}
}

func (t *toy) begin() {
	t.hits = make([]map[velo.Cluster]bool, t.g.Boards())
	for i := range t.hits {
		t.hits[i] = map[velo.Cluster]bool{}
	}
}

// fly lets a particle go from a point.
func (t *toy) fly(x, y, z, tx, ty float64, forwards bool) {
	for b := range t.g.Boards() {
		s := t.g.Sensor(b)
		if s.Z > z != forwards || t.rng.Float64() < 0.01 {
			continue
		}
		px, py := x+tx*(s.Z-z), y+ty*(s.Z-z)
		r, phi := math.Hypot(px, py), math.Atan2(py, px)
		if s.Side == velo.Left && phi < 0 {
			phi += 2 * math.Pi
		}
		var place velo.StripPosition
		var ok bool
		if s.Kind == velo.R {
			place, ok = t.g.LocateR(b, r, phi)
		} else {
			place, ok = t.g.LocatePhi(b, r, phi)
		}
		if !ok {
			continue
		}
		switch {
		case place.Fraction > 0.75 && place.Strip+1 < place.EndStrip:
			t.hits[b][velo.NewCluster(place.Strip, true)] = true
		case place.Fraction < 0.25 && place.Strip > place.FirstStrip:
			t.hits[b][velo.NewCluster(place.Strip-1, true)] = true
		default:
			t.hits[b][velo.NewCluster(place.Strip, false)] = true
		}
	}
}

// collision lets tracks go from a point, into both directions.
func (t *toy) collision(x, y, z float64, tracks int) {
	for range tracks {
		theta, phi := 0.015+0.35*math.Pow(t.rng.Float64(), 1.5), 2*math.Pi*t.rng.Float64()
		t.fly(x, y, z, math.Tan(theta)*math.Cos(phi), math.Tan(theta)*math.Sin(phi), t.rng.Float64() < 0.7)
	}
}

// noise adds clusters of one strip.
func (t *toy) noise(n int) {
	for range n {
		b := t.rng.IntN(t.g.Boards())
		t.hits[b][velo.NewCluster(t.rng.IntN(t.g.Strips(b)), false)] = true
	}
}

// boards are the fragments. Clusters that share strips are left out, as a front-end would join them.
func (t *toy) boards(ev uint16) (list []velo.Board) {
	for b, hits := range t.hits {
		clusters := make([]velo.Cluster, 0, len(hits))
		for c := range hits {
			clusters = append(clusters, c)
		}
		slices.SortFunc(clusters, func(a, b velo.Cluster) int { return a.Strip()*4 + a.Size() - b.Strip()*4 - b.Size() })
		kept := clusters[:0]
		for _, c := range clusters {
			if n := len(kept); n == 0 || kept[n-1].Strip()+kept[n-1].Size() <= c.Strip() {
				kept = append(kept, c)
			}
		}
		buf := make([]byte, velo.MaxBoardSize)
		buf = buf[:velo.PutBoard(buf, ev, b, kept, 0)]
		board, err := velo.ParseBoard(buf)
		if err != nil {
			panic(err)
		}
		list = append(list, board)
	}
	return list
}

// truth of a toy's event.
type truth struct {
	x, y, z float64
	decay   bool
	dz      float64 // of the decay, along the beam
}

// event makes a collision, with a decay or without.
func (t *toy) event(ev uint16, decay bool) ([]velo.Board, truth) {
	t.begin()
	at := truth{t.rng.NormFloat64() * 0.05, t.rng.NormFloat64() * 0.05, t.rng.NormFloat64() * 50, decay, 0}
	t.collision(at.x, at.y, at.z, 60+t.rng.IntN(40))
	if decay {
		at.dz = 4 + 6*t.rng.ExpFloat64()
		theta, phi := 0.03+0.05*t.rng.Float64(), 2*math.Pi*t.rng.Float64()
		tx, ty := math.Tan(theta)*math.Cos(phi), math.Tan(theta)*math.Sin(phi)
		for i := range 2 {
			kick, turn := 0.05*float64(1-2*i), 2*math.Pi*t.rng.Float64()
			t.fly(at.x+tx*at.dz, at.y+ty*at.dz, at.z+at.dz, tx+kick*math.Cos(turn), ty+kick*math.Sin(turn), true)
		}
	}
	t.noise(500)
	return t.boards(ev), at
}
