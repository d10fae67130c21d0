package predict

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// fewError says that there are too few points for a fit.
type fewError struct{ Have, Need int }

func (e *fewError) Error() string {
	return fmt.Sprintf("%d points are too few to fit %d costs: give more results of ringlet bench sweep", e.Have, e.Need)
}

// Judged is a point and what was predicted for it.
type Judged struct {
	Point
	Predicted float64
}

// Off is how far the prediction is off, as a share of what was measured.
func (j *Judged) Off() float64 { return j.Predicted/j.Rate - 1 }

// Judge predicts all points.
func Judge(ctx context.Context, points []Point, costs Costs) ([]Judged, error) {
	rates, err := ratesOf(ctx, points, costs)
	if err != nil {
		return nil, err
	}
	var all []Judged
	for i, p := range points {
		all = append(all, Judged{Point: p, Predicted: rates[i]})
	}
	return all, nil
}

// errorsOf are the median and the worst error of the points that costs were fitted to, or of the others.
func errorsOf(all []Judged, fit bool) (median, worst float64, n int) {
	var off []float64
	for i := range all {
		if all[i].Fit == fit {
			off = append(off, math.Abs(all[i].Off()))
		}
	}
	if len(off) == 0 {
		return 0, 0, 0
	}
	slices.Sort(off)
	return off[len(off)/2], off[len(off)-1], len(off)
}

// WriteErrors writes the table of errors.
func WriteErrors(out io.Writer, all []Judged) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "sweep\tpoint\tmeasured / Hz\tpredicted / Hz\terror\t\n")
	for i := range all {
		j := &all[i]
		what := "judged"
		if j.Fit {
			what = "calibrated on"
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%+.1f %%\t%s\n", j.Sweep, j.Name, j.Rate, j.Predicted, 100*j.Off(), what)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, fit := range []bool{true, false} {
		if err := writeSummary(out, "", all, fit); err != nil {
			return err
		}
	}
	return nil
}

func writeSummary(out io.Writer, before string, all []Judged, fit bool) error {
	median, worst, n := errorsOf(all, fit)
	what := "judged"
	if fit {
		what = "calibrated on"
	}
	_, err := fmt.Fprintf(out, "%s%d points %s: median error %.1f %%, worst %.1f %%\n", before, n, what, 100*median,
		100*worst)
	return err
}
