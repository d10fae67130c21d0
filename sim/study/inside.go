package study

import (
	"fmt"
	"slices"

	"ringlet/sim"
)

const (
	maxObservedSims = 8  // simulations of a study that are observed: models may make thousands
	observedPoints  = 48 // points of a curve
)

// SimDetails has the observations of a study's simulations besides its results: histograms, and what waits over time.
// The zero value is ready to use.
type SimDetails struct {
	sims []*sim.Sim
}

// Sim makes a simulation with the seed of the run. If the caller wants details, its components are observed; the first
// simulation is also traced.
func (e *Env) Sim() *sim.Sim {
	s := sim.New(e.Seed)
	if e.Details == nil || len(e.Details.sims) == maxObservedSims {
		return s
	}
	t := e.Trace
	if len(e.Details.sims) > 0 {
		t = nil
	}
	s.EnableInstruments(t)
	e.Details.sims = append(e.Details.sims, s)
	return s
}

// plots draws the observations. With a single simulation, the names of curves have no numbers.
func (in *SimDetails) plots() []Plot {
	waits := Plot{Name: "what waits, the most of each stretch of time", X: "µs", Y: "number"}
	var all []Plot
	for i, s := range in.sims {
		of := ""
		if len(in.sims) > 1 {
			of = fmt.Sprintf(" (simulation %d)", i+1)
		}
		for _, w := range s.WatchedSeries() {
			waits.Curves = append(waits.Curves, Curve{Name: w.Name + of, Points: peakCurve(w)})
		}
		for _, h := range s.Histograms() {
			if h.Count() > 0 {
				all = append(all, Plot{
					Name:   "histogram",
					X:      "µs",
					Y:      "share",
					Curves: []Curve{{Name: h.Name + of, Points: binShares(h.Histogram)}},
				})
			}
		}
	}
	if len(waits.Curves) > 0 {
		all = append(all, waits)
	}
	return all
}

// peakCurve is a curve of peaks: for each of some intervals, the most that waited, at the end of the interval.
func peakCurve(w *sim.Series) (points [][2]float64) {
	each := max(1, (len(w.Values)+observedPoints-1)/observedPoints)
	for i := 0; i < len(w.Values); i += each {
		end, v := min(i+each, len(w.Values)), int64(0)
		for _, one := range w.Values[i:end] {
			v = max(v, one)
		}
		points = append(points, [2]float64{micros(int64(end) * int64(w.Every)), float64(v)})
	}
	return points
}

// binShares are the shares of equal intervals between the least value and the greatest, each at its beginning. Empty
// intervals are left out.
func binShares(h *sim.Histogram) [][2]float64 {
	width := max(1, (h.Max()-h.Min())/observedPoints+1)
	points := make([][2]float64, (h.Max()-h.Min())/width+1)
	for i := range points {
		points[i][0] = micros(h.Min() + int64(i)*width)
	}
	for low, n := range h.Bins() { // a bin may begin below the least value, by less than its width
		i := min(max(0, (low-h.Min())/width), int64(len(points)-1))
		points[i][1] += float64(n) / float64(h.Count())
	}
	return slices.DeleteFunc(points, func(at [2]float64) bool { return at[1] == 0 })
}

func micros(t int64) float64 { return float64(t) / float64(sim.Microsecond) }
