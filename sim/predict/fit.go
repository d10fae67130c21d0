package predict

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ringlet/lab/trial"
)

// initialCosts is the start of a fit: orders of magnitude.
var initialCosts = Costs{
	Part:              300e-6,
	Packet:            10e-6,
	Byte:              1e-9,
	Message:           50e-6,
	MessageDelay:      100e-6,
	IdleShare:         0.02,
	OtherLoad:         0.1,
	RetransmitTimeout: 20e-3,
}

// fittedCosts lists the fitted costs.
func (c *Costs) fittedCosts() []*float64 {
	return []*float64{&c.Part, &c.Packet, &c.Byte, &c.Message, &c.MessageDelay, &c.IdleShare, &c.OtherLoad,
		&c.RetransmitTimeout}
}

// withLogs replaces the fitted costs by those with the given logarithms.
func (c Costs) withLogs(logs []float64) Costs {
	for i, x := range c.fittedCosts() {
		*x = math.Exp(logs[i])
	}
	return c
}

// predictRates predicts the rate of every point, on all cores.
func predictRates(ctx context.Context, points []Point, costs Costs) ([]float64, error) {
	rates, errs := make([]float64, len(points)), make([]error, len(points))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(len(points), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				f := &points[i].File
				p, err := predictOne(ctx, f, f.Setup, costs)
				if errs[i] = err; err == nil {
					rates[i] = p.Rate
				}
			}
		})
	}
	for i := range points {
		next <- i
	}
	close(next)
	wg.Wait()
	return rates, errors.Join(errs...)
}

// mostSteps bounds a fit, which ends after five to ten steps.
const mostSteps = 12

// Calibrate fits the costs to the points that are for it, with the carriers of known: least squares on the logarithm of
// the rate, by the method of Levenberg and Marquardt over the logarithms of the costs. onStep is called after each
// step; it may be nil.
func Calibrate(ctx context.Context, points []Point, known *Calibration,
	onStep func(step int, rms float64)) (*Calibration,
	error,
) {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !p.UsedInFit })
	if need := len(initialCosts.fittedCosts()); len(points) < need {
		return nil, &tooFewPointsError{Have: len(points), Need: need}
	}
	best, least := Costs{}, math.Inf(1)
	for i, by := range starts {
		from := initialCosts
		from.RetransmitTimeout *= by
		f := fit{ctx: ctx, points: points, knownCosts: known.Costs}
		off := f.descend(from, func(step int, rms float64) {
			if onStep != nil {
				onStep(i*mostSteps+step, rms)
			}
		})
		if f.err != nil {
			return nil, f.err
		}
		if s := squares(off); s < least {
			best, least = known.withLogs(f.logCosts), s
		}
	}
	origin := "rates of ringlet bench sweep"
	for i, p := range points {
		if i == 0 || p.Sweep != points[i-1].Sweep {
			origin += fmt.Sprintf(", %s from %s on", p.Sweep, p.Started)
		}
	}
	return &Calibration{Costs: best.rounded(), Origin: strings.TrimPrefix(known.Origin+"; ", "; ") + origin}, nil
}

// rounded has the costs as a file writes them: with four digits.
func (c Costs) rounded() Costs {
	for _, x := range c.fittedCosts() {
		*x = roundToFour(*x)
	}
	return c
}

// roundToFour rounds to four significant digits.
func roundToFour(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return x
}

// starts are factors of RetransmitTimeout where fits begin, since it has several local minima: the effect of waiting
// depends on whether it exceeds a sender's time-out. The best fit counts.
var starts = []float64{1, 0.25, 4}

// descend goes from some costs to the nearest minimum of squares, and returns the residuals there.
func (f *fit) descend(from Costs, onStep func(step int, rms float64)) []float64 {
	for _, x := range from.fittedCosts() {
		f.logCosts = append(f.logCosts, math.Log(*x))
	}
	f.initialLogs = slices.Clone(f.logCosts)
	off := f.residuals(f.logCosts)
	damping := 0.1
	for step := 1; step <= mostSteps && f.err == nil && damping < 1e3; step++ {
		onStep(step, math.Sqrt(squares(off)/float64(len(off))))
		slopes := f.slopes(off)
		for ; damping < 1e3 && f.err == nil; damping *= 4 {
			to := f.solveStep(slopes, off, damping)
			if there := f.residuals(to); f.err == nil && squares(there) < squares(off)*(1-1e-4) {
				f.logCosts, off = to, there
				damping /= 10
				break
			}
		}
	}
	return off
}

type fit struct {
	ctx         context.Context
	points      []Point
	knownCosts  Costs     // with the carriers, which are not fitted
	logCosts    []float64 // logarithms of the fitted costs
	initialLogs []float64 // start of the fit
	err         error
}

// priorWeight is the weight of a cost's distance from its order of magnitude: a factor of e counts as a point with that
// error. So a cost on which no point depends stays there.
const priorWeight = 0.02

// weight is the weight of a point: the further its runs are apart, the less.
func (p *Point) weight() float64 {
	const sure = 0.05 // a point whose runs spread by this share of the rate has a weight of 0.7
	s := trial.SpreadOf(p.Rates)
	return sure / math.Hypot(sure, math.Log(s.Max/s.Min)/2)
}

// residuals are the weighted errors of points, as logarithms of predicted over measured, and the distances of costs.
func (f *fit) residuals(logs []float64) []float64 {
	off := make([]float64, len(f.points), len(f.points)+len(logs))
	rates, err := predictRates(f.ctx, f.points, f.knownCosts.withLogs(logs))
	if err != nil {
		f.err = err
		return make([]float64, len(f.points)+len(logs))
	}
	for i, p := range f.points {
		off[i] = p.weight() * math.Log(rates[i]/p.Rate)
	}
	for i, x := range initialCosts.fittedCosts() {
		off = append(off, priorWeight*(logs[i]-math.Log(*x)))
	}
	return off
}

// slopeStep is by how much slopes changes the natural logarithm of one cost, to see how the residuals change. A much
// smaller step would show chance: the simulator would do the same work in another order.
const slopeStep = 0.2

// slopes returns, for the logarithm of each cost, the derivatives of all residuals by it. off are the residuals at the
// present costs.
func (f *fit) slopes(off []float64) [][]float64 {
	all := make([][]float64, len(f.logCosts))
	for k := range f.logCosts {
		to := slices.Clone(f.logCosts)
		to[k] += slopeStep
		all[k] = f.residuals(to)
		for i := range all[k] {
			all[k][i] = (all[k][i] - off[i]) / slopeStep
		}
	}
	return all
}

// maxCostFactor bounds how far a cost moves from the start of the fit.
const maxCostFactor = 1000

// solveStep solves the damped normal equations. A cost on which no point depends stays.
func (f *fit) solveStep(slopes [][]float64, off []float64, damping float64) []float64 {
	n := len(f.logCosts)
	m := make([][]float64, n)
	for a := range n {
		m[a] = make([]float64, n+1)
		for b := range n {
			m[a][b] = dot(slopes[a], slopes[b])
		}
		m[a][a] += damping * (m[a][a] + 1e-3)
		m[a][n] = -dot(slopes[a], off)
	}
	to := slices.Clone(f.logCosts)
	for k, d := range solve(m) {
		to[k] = f.logCosts[k] + max(-1.5, min(1.5, d))
		to[k] = max(f.initialLogs[k]-math.Log(maxCostFactor), min(f.initialLogs[k]+math.Log(maxCostFactor), to[k]))
	}
	return to
}

// solve is Gauss's elimination for a positive definite system; the last column is the right side.
func solve(m [][]float64) []float64 {
	n := len(m)
	for k := range n {
		for i := k + 1; i < n; i++ {
			by := m[i][k] / m[k][k]
			for j := k; j <= n; j++ {
				m[i][j] -= by * m[k][j]
			}
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = m[i][n]
		for j := i + 1; j < n; j++ {
			x[i] -= m[i][j] * x[j]
		}
		x[i] /= m[i][i]
	}
	return x
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func squares(a []float64) float64 { return dot(a, a) }
