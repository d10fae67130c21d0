package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Target is one demand on the reference machine, and what came of it.
type Target struct {
	Path     string  `json:"path"`
	Target   string  `json:"target"`             // in words
	Measured *Spread `json:"measured,omitempty"` // nil: not measured
	Unit     string  `json:"unit"`               // of Measured; × is a ratio
	Reached  bool    `json:"reached"`            // by the median
}

// demand is a row of the table of targets: figures of the rounds, and what their median must be.
type demand struct {
	path    string
	carrier string // without which the row is not printed
	figures func(rounds []*round) []float64
	unit    string
	most    bool // the bound is the most that may be
	bound   float64
	what    string // what the figure is
}

// targets judges every demand on the carriers named. Demands for which nothing was measured are listed without a
// figure. Those about whole runs are listed where runs were asked for.
func targets(names []string, spinning, runs bool, rounds []*round) []Target {
	out := []Target{}
	demands := cellDemands(spinning)
	if runs {
		demands = append(demands, runDemands()...)
	}
	for _, d := range demands {
		if !slices.Contains(names, d.carrier) {
			continue
		}
		sign := "≥"
		if d.most {
			sign = "≤"
		}
		t := Target{Path: d.path, Target: fmt.Sprintf("%s %g %s%s", sign, d.bound, d.unit, d.what), Unit: d.unit}
		if v := d.figures(rounds); v != nil {
			s := spread(v)
			t.Measured = &s
			t.Reached = d.most && s.Median <= d.bound || !d.most && s.Median >= d.bound
		}
		out = append(out, t)
	}
	return out
}

// judged is the size of writes that the targets are about.
const judged = blockSize

// goodputOf a carrier, in Gbit/s.
func goodputOf(name string) func([]*round) []float64 {
	return func(rounds []*round) []float64 { return over(rounds, cellOf(cellKey{name, judged}), cellGbps) }
}

// overReference is a carrier's goodput as a ratio to a reference.
func overReference(name, reference string) func([]*round) []float64 {
	return func(rounds []*round) []float64 {
		return ratios(rounds, cellOf(cellKey{name, judged}), cellGbps, refOf(reference), refGbps)
	}
}

// lostBytes of a carrier: sent and not in place.
func lostBytes(name string) func([]*round) []float64 {
	return func(rounds []*round) []float64 {
		return over(rounds, cellOf(cellKey{name, judged}),
			func(c cellResult) float64 { return float64(c.Sent) - float64(c.Here) })
	}
}

// cellDemands are those that the table of carriers answers: one end writes to the other, nothing is built.
func cellDemands(spinning bool) []demand {
	trip := refTrip
	if spinning {
		trip = refTripSpin
	}
	small := func(name string) func(*round) (cellResult, bool) { return cellOf(cellKey{name, tripSize}) }
	return []demand{
		{"quic, 1 MiB", "quic", overReference("quic", refQUIC), "×", false, 0.9, " unpaced quic-go datagrams"},
		{"quic, 1 MiB", "quic", lostBytes("quic"), "B", true, 0, " lost"},
		{"express sealed, 1 MiB", "express", goodputOf("express"), "Gbit/s", false, 17, ""},
		{"express sealed, 1 MiB", "express", overReference("express", refIPerf), "×", false, 0.8, " iperf3"},
		{"express open, 1 MiB", "express-open", goodputOf("express-open"), "Gbit/s", false, 32, ""},
		{"express open, 1 MiB", "express-open", overReference("express-open", refIPerf), "×", false, 1.5, " iperf3"},
		{"stream, 1 MiB", "stream", goodputOf("stream"), "Gbit/s", false, 5, ""},
		{"local, 1 MiB", "local", overReference("local", refCopy), "×", false, 0.8, " copy into a mapped file"},
		{"express, 128 B, idle", "express", func(rounds []*round) []float64 {
			return ratios(rounds, small("express"), func(c cellResult) float64 { return c.Write.P50 },
				refOf(trip), func(r refResult) float64 { return r.Trip.P50 })
		}, "×", true, 1.3, " a raw UDP round trip (p50, " + trip + ")"},
		{"local, 128 B, idle", "local", func(rounds []*round) []float64 {
			return over(rounds, small("local"), func(c cellResult) float64 { return c.Answered.P50 })
		}, "µs", true, 3, ", seen and answered (p50)"},
	}
}

// base is the run that a run's goodput is compared with.
func (s *runSpec) base() string {
	kind, name, _ := cutLast(s.name)
	if kind == "folded" || strings.HasPrefix(kind, "loss") {
		return "pair " + name
	}
	return ""
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func runRatio(a, b string) func([]*round) []float64 {
	return func(rounds []*round) []float64 { return ratios(rounds, runOf(a), runGbps, runOf(b), runGbps) }
}

func pairGbps(name string) func([]*round) []float64 {
	return func(rounds []*round) []float64 { return over(rounds, runOf("pair "+name), runGbps) }
}

func pairOver(name, reference string) func([]*round) []float64 {
	return func(rounds []*round) []float64 {
		return ratios(rounds, runOf("pair "+name), runGbps, refOf(reference), refGbps)
	}
}

func runEvents(name string) func([]*round) []float64 {
	return func(rounds []*round) []float64 {
		return over(rounds, runOf(name), func(r runResult) float64 { return r.Events / 1e6 })
	}
}

// betweenNodes compares what goes between folded nodes with what goes between OpenMPI's ranks: a node's own share, one
// of four, is taken off, as it is not counted there.
func betweenNodes(name, reference string) func([]*round) []float64 {
	return func(rounds []*round) []float64 {
		return ratios(rounds, runOf(name), func(r runResult) float64 { return r.Gbps * (foldedNodes - 1) / foldedNodes },
			refOf(reference), refGbps)
	}
}

// runDemands are those that whole runs answer.
func runDemands() []demand {
	out := []demand{
		{"1 RU to 1 BU, quic", "quic", pairOver("quic", refQUIC), "×", false, 0.9, " unpaced quic-go datagrams"},
		{"1 RU to 1 BU, express", "express", pairGbps("express"), "Gbit/s", false, 17, ""},
		{"1 RU to 1 BU, express", "express", pairOver("express", refIPerf), "×", false, 0.8, " iperf3"},
		{"1 RU to 1 BU, express-open", "express-open", pairGbps("express-open"), "Gbit/s", false, 32, ""},
		{"1 RU to 1 BU, express-open", "express-open", pairOver("express-open", refIPerf), "×", false, 1.5, " iperf3"},
		{"1 RU to 1 BU, stream", "stream", pairGbps("stream"), "Gbit/s", false, 5, ""},
		{"1 RU to 1 BU, local", "local", pairOver("local", refCopy), "×", false, 0.8, " copy into a mapped file"},
	}
	for _, c := range carriers {
		ratio := runRatio("folded "+c.Name, "pair "+c.Name)
		out = append(out, demand{"4 folded nodes, " + c.Name, c.Name, ratio, "×", false, 0.85, " its pair"})
	}
	out = append(out,
		demand{"4 folded nodes, local", "local", betweenNodes("folded local", refMPIShm), "×", false, 0.8,
			" OpenMPI over shared memory, between nodes"},
		demand{"4 folded nodes, express-open", "express-open", betweenNodes("folded express-open", refMPITCP), "×", false,
			0.7, " OpenMPI over TCP, between nodes"},
		demand{"2 RUs, 128 B, packing 1, local", "local", runEvents("small local"), "M events/s", false, 2.14, ""},
		demand{"2 RUs, 128 B, packing 1, express", "express", runEvents("small express"), "M events/s", false, 2.14, ""},
		demand{"2 RUs, 128 B, packing 1, quic", "quic", runEvents("small quic"), "M events/s", false, 1, ""},
		demand{"3 RUs to 26 BUs, 128 B, express", "express", runEvents("fan express"), "M events/s", false, 1.24, ""},
	)
	for _, c := range []string{"express", "quic"} {
		out = append(out,
			demand{"loss of 0.1 %, " + c, c, runRatio("loss 0.1 % "+c, "pair "+c), "×", false, 0.8, " lossless"},
			demand{"loss of 1 %, " + c, c, runRatio("loss 1 % "+c, "pair "+c), "×", false, 0.6, " lossless"})
	}
	return out
}
