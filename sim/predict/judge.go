package predict

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"ringlet/lab/trial"
)

// tooFewPointsError says that there are too few points for a fit.
type tooFewPointsError struct{ Have, Need int }

func (e *tooFewPointsError) Error() string {
	return fmt.Sprintf("%d points are too few to fit %d costs: give more results of ringlet bench sweep", e.Have, e.Need)
}

// JudgedPoint is a measured configuration, and how well the prediction for it agrees.
type JudgedPoint struct {
	Sweep         string       `json:"sweep"`
	Name          string       `json:"point"`
	UsedInFit     bool         `json:"calibrated_on"`
	Measured      trial.Spread `json:"measured_hz"`
	Predicted     float64      `json:"predicted_hz"`
	RelativeError float64      `json:"error"` // relative to the median of the measured rates

	rates []float64
}

// Judge predicts all points.
func Judge(ctx context.Context, points []Point, costs Costs) ([]JudgedPoint, error) {
	rates, err := predictRates(ctx, points, costs)
	if err != nil {
		return nil, err
	}
	all := []JudgedPoint{}
	for i, p := range points {
		all = append(all, JudgedPoint{
			Sweep:         p.Sweep,
			Name:          p.Name,
			UsedInFit:     p.UsedInFit,
			Measured:      trial.SpreadOf(p.Rates),
			Predicted:     rates[i],
			RelativeError: rates[i]/p.Rate - 1,
			rates:         p.Rates,
		})
	}
	return all, nil
}

// errorStats are statistics of the errors of points.
type errorStats struct{ Median, Worst float64 }

// errorsOf compares predictions with the medians of the points' runs, or with the runs of one round if it is not
// negative.
func errorsOf(points []JudgedPoint, round int) (e errorStats, n int) {
	var off []float64
	for i := range points {
		switch p := &points[i]; {
		case round < 0:
			off = append(off, math.Abs(p.RelativeError))
		case round < len(p.rates):
			off = append(off, math.Abs(p.Predicted/p.rates[round]-1))
		}
	}
	if len(off) == 0 {
		return errorStats{}, 0
	}
	s := trial.SpreadOf(off)
	return errorStats{s.Median, s.Max}, len(off)
}

func fitRole(fit bool) string {
	if fit {
		return "calibrated on"
	}
	return "judged"
}

// WriteErrors writes each point, and the errors of each sweep and of all points.
func WriteErrors(out io.Writer, all []JudgedPoint) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "sweep\tpoint\tmeasured / Hz\truns\tleast to most\tpredicted / Hz\terror\t\n")
	for i := range all {
		j := &all[i]
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%d\t%+.0f to %+.0f %%\t%.0f\t%+.1f %%\t%s\n", j.Sweep, j.Name, j.Measured.Median,
			j.Measured.N, 100*(j.Measured.Min/j.Measured.Median-1), 100*(j.Measured.Max/j.Measured.Median-1), j.Predicted,
			100*j.RelativeError, fitRole(j.UsedInFit))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var sweeps []string
	for i := range all {
		if !slices.Contains(sweeps, all[i].Sweep) {
			sweeps = append(sweeps, all[i].Sweep)
		}
	}
	for _, name := range sweeps {
		of := slices.DeleteFunc(slices.Clone(all), func(j JudgedPoint) bool { return j.Sweep != name })
		if err := writeSummary(out, name+": ", of); err != nil {
			return err
		}
	}
	return writeSummary(out, "", all)
}

// writeSummary writes a line for the points in the fit, and one for the others.
func writeSummary(out io.Writer, before string, all []JudgedPoint) error {
	for _, fit := range []bool{true, false} {
		of := slices.DeleteFunc(slices.Clone(all), func(j JudgedPoint) bool { return j.UsedInFit != fit })
		e, n := errorsOf(of, -1)
		if n == 0 {
			continue
		}
		fmt.Fprintf(out, "%s%d points %s: median error %.1f %%, worst %.1f %%", before, n, fitRole(fit), 100*e.Median,
			100*e.Worst)
		if before == "" {
			for round := 0; ; round++ {
				e, n := errorsOf(of, round)
				if n == 0 || n < len(of)/2 {
					break
				}
				fmt.Fprintf(out, "; of run %d alone %.1f and %.1f %%", round+1, 100*e.Median, 100*e.Worst)
			}
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	return nil
}
