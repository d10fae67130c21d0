package study

import (
	"fmt"
	"slices"

	"ringlet/sim"
)

const (
	maxInside    = 8  // simulations of a study that are looked into: models may make thousands
	insidePoints = 48 // points of a curve
)

// Inside is what there is to see in the simulations of a study besides its results: histograms, and what waits over
// time. The zero value is good.
type Inside struct {
	sims []*sim.Sim
}

// Sim makes a simulation with the seed of the run. Where the caller wants to look inside, its parts are observed; the
// first one is traced.
func (e *Env) Sim() *sim.Sim {
	s := sim.New(e.Seed)
	if e.Inside == nil || len(e.Inside.sims) == maxInside {
		return s
	}
	t := e.Trace
	if len(e.Inside.sims) > 0 {
		t = nil
	}
	s.Observe(t)
	e.Inside.sims = append(e.Inside.sims, s)
	return s
}

// plots draws what was seen. Of a study with one simulation the curves have no numbers.
func (in *Inside) plots() []Plot {
	waits := Plot{Name: "what waits, the most of each stretch of time", X: "µs", Y: "number"}
	var all []Plot
	for i, s := range in.sims {
		of := ""
		if len(in.sims) > 1 {
			of = fmt.Sprintf(" (simulation %d)", i+1)
		}
		for _, w := range s.Watched() {
			waits.Curves = append(waits.Curves, Curve{Name: w.Name + of, Points: most(w)})
		}
		for _, h := range s.Shown() {
			if h.Count() > 0 {
				all = append(all, Plot{
					Name:   "histogram",
					X:      "µs",
					Y:      "share",
					Curves: []Curve{{Name: h.Name + of, Points: shares(h.Histogram)}},
				})
			}
		}
	}
	if len(waits.Curves) > 0 {
		all = append(all, waits)
	}
	return all
}

// most is a curve of the most that waits in each of some stretches of time, up to the end of the stretch.
func most(w *sim.Series) (points [][2]float64) {
	each := max(1, (len(w.Values)+insidePoints-1)/insidePoints)
	for i := 0; i < len(w.Values); i += each {
		end, v := min(i+each, len(w.Values)), int64(0)
		for _, one := range w.Values[i:end] {
			v = max(v, one)
		}
		points = append(points, [2]float64{micros(int64(end) * int64(w.Every)), float64(v)})
	}
	return points
}

// shares are those of stretches of the same width between the least value and the greatest, each at its beginning.
// Empty ones are left out.
func shares(h *sim.Histogram) [][2]float64 {
	width := max(1, (h.Max()-h.Min())/insidePoints+1)
	points := make([][2]float64, (h.Max()-h.Min())/width+1)
	for i := range points {
		points[i][0] = micros(h.Min() + int64(i)*width)
	}
	for low, n := range h.Bins() { // a bin begins at most its own width below the least value
		i := min(max(0, (low-h.Min())/width), int64(len(points)-1))
		points[i][1] += float64(n) / float64(h.Count())
	}
	return slices.DeleteFunc(points, func(at [2]float64) bool { return at[1] == 0 })
}

func micros(t int64) float64 { return float64(t) / float64(sim.Microsecond) }
