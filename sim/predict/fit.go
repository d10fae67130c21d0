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

// begin is where a fit begins: orders of magnitude, from which it goes to what was measured.
var begin = Costs{
	Part:              300e-6,
	Packet:            10e-6,
	Byte:              1e-9,
	Message:           50e-6,
	Flight:            100e-6,
	Idle:              0.02,
	Others:            0.1,
	RetransmitTimeout: 20e-3,
}

// numbers are the costs as a list.
func (c *Costs) numbers() []*float64 {
	return []*float64{&c.Part, &c.Packet, &c.Byte, &c.Message, &c.Flight, &c.Idle, &c.Others, &c.RetransmitTimeout}
}

// with are costs whose logarithms are given, with carriers that are not fitted.
func (c Costs) with(logs []float64) Costs {
	for i, x := range c.numbers() {
		*x = math.Exp(logs[i])
	}
	return c
}

// ratesOf predicts the rate of every point, as many at a time as there are cores.
func ratesOf(ctx context.Context, points []Point, costs Costs) ([]float64, error) {
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

// mostSteps of a fit: it has come to its end after five to ten.
const mostSteps = 12

// Calibrate fits the costs to the points that are for it, beside carriers that are known: least squares on the
// logarithm of the rate, by the method of Levenberg and Marquardt over the logarithms of the costs. onStep is told of
// each step, and may be nil.
func Calibrate(ctx context.Context, points []Point, known *Calibration,
	onStep func(step int, rms float64)) (*Calibration,
	error,
) {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !p.Fit })
	if need := len(begin.numbers()); len(points) < need {
		return nil, &fewError{Have: len(points), Need: need}
	}
	best, least := Costs{}, math.Inf(1)
	for i, by := range starts {
		from := begin
		from.RetransmitTimeout *= by
		f := fit{ctx: ctx, points: points, known: known.Costs}
		off := f.descend(from, func(step int, rms float64) {
			if onStep != nil {
				onStep(i*mostSteps+step, rms)
			}
		})
		if f.err != nil {
			return nil, f.err
		}
		if s := squares(off); s < least {
			best, least = known.with(f.point), s
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

// rounded costs are those that a file of them says: four digits.
func (c Costs) rounded() Costs {
	for _, x := range c.numbers() {
		*x = digits(*x)
	}
	return c
}

// digits are the first four of a number.
func digits(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return x
}

// starts are where fits begin, as factors of the cost that has several least squares: what waiting leads to depends on
// whether a sender's time-out lasts. The best of them counts.
var starts = []float64{1, 0.25, 4}

// descend goes down from some costs to the least squares near them, and says how far the points are off there.
func (f *fit) descend(from Costs, onStep func(step int, rms float64)) []float64 {
	for _, x := range from.numbers() {
		f.point = append(f.point, math.Log(*x))
	}
	f.low = slices.Clone(f.point)
	off := f.off(f.point)
	damping := 0.1
	for step := 1; step <= mostSteps && f.err == nil && damping < 1e3; step++ {
		onStep(step, math.Sqrt(squares(off)/float64(len(off))))
		slopes := f.slopes(off)
		for ; damping < 1e3 && f.err == nil; damping *= 4 {
			to := f.step(slopes, off, damping)
			if there := f.off(to); f.err == nil && squares(there) < squares(off)*(1-1e-4) {
				f.point, off = to, there
				damping /= 10
				break
			}
		}
	}
	return off
}

type fit struct {
	ctx    context.Context
	points []Point
	known  Costs     // its carriers are
	point  []float64 // logarithms of the costs
	low    []float64 // where it began
	err    error
}

// pull is what a cost counts that is e times as much as the order of magnitude where fits begin: as much as a point
// that is so far off. So a cost that no point depends on stays there.
const pull = 0.02

// weight is how much a point counts: less, the further its runs are apart.
func (p *Point) weight() float64 {
	const sure = 0.05 // of its rate
	s := trial.SpreadOf(p.Rates)
	return sure / math.Hypot(sure, math.Log(s.Max/s.Min)/2)
}

// off is how far the points are off: logarithms of predicted over measured; and the costs.
func (f *fit) off(logs []float64) []float64 {
	off := make([]float64, len(f.points), len(f.points)+len(logs))
	rates, err := ratesOf(f.ctx, f.points, f.known.with(logs))
	if err != nil {
		f.err = err
		return make([]float64, len(f.points)+len(logs))
	}
	for i, p := range f.points {
		off[i] = p.weight() * math.Log(rates[i]/p.Rate)
	}
	for i, x := range begin.numbers() {
		off = append(off, pull*(logs[i]-math.Log(*x)))
	}
	return off
}

// difference is by how much a logarithm changes where slopes are taken: enough that the events of a run do not only
// change places.
const difference = 0.2

// slopes is how much each point changes with each logarithm.
func (f *fit) slopes(off []float64) [][]float64 {
	all := make([][]float64, len(f.point))
	for k := range f.point {
		to := slices.Clone(f.point)
		to[k] += difference
		all[k] = f.off(to)
		for i := range all[k] {
			all[k][i] = (all[k][i] - off[i]) / difference
		}
	}
	return all
}

// widest is the factor by which a cost may leave where the fit began.
const widest = 1000

// step solves the damped normal equations. A cost that no point depends on stays.
func (f *fit) step(slopes [][]float64, off []float64, damping float64) []float64 {
	n := len(f.point)
	m := make([][]float64, n)
	for a := range n {
		m[a] = make([]float64, n+1)
		for b := range n {
			m[a][b] = dot(slopes[a], slopes[b])
		}
		m[a][a] += damping * (m[a][a] + 1e-3)
		m[a][n] = -dot(slopes[a], off)
	}
	to := slices.Clone(f.point)
	for k, d := range solve(m) {
		to[k] = f.point[k] + max(-1.5, min(1.5, d))
		to[k] = max(f.low[k]-math.Log(widest), min(f.low[k]+math.Log(widest), to[k]))
	}
	return to
}

// solve is Gauss's elimination of a positive definite system; the last column is the right side.
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
