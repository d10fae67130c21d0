package bench

import (
	"cmp"
	"math"
	"slices"

	"ringlet/node/hostlimits"
)

// Report is what a measurement came to, as `ringlet bench carriers --json` prints it. docs/benchmarking.md says what
// fields mean.
type Report struct {
	Version     string  `json:"version"`
	Started     string  `json:"started"` // RFC 3339
	Peer        string  `json:"peer,omitempty"`
	Rounds      int     `json:"rounds"`
	RoundsDone  int     `json:"rounds_done"`
	Interrupted bool    `json:"interrupted"`
	DurationS   float64 `json:"duration_s"`
	SpinUs      int64   `json:"spin_us"`
	Procs       int     `json:"procs"`
	Cores       int     `json:"cores"`
	Memory      int64   `json:"memory"` // bytes

	Targets    []Target       `json:"targets"`
	Carriers   []CarrierRow   `json:"carriers"`
	References []ReferenceRow `json:"references"`
	Runs       []RunRow       `json:"runs,omitempty"`

	Limits  []HostLimit `json:"limits"`
	LeftOut []string    `json:"left_out"`
	Failed  []string    `json:"failed"`
}

// Spread is a figure over the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Ratio is a figure over another of the same round.
type Ratio struct {
	To string `json:"to"` // name of the reference
	Spread
}

// Times of one thing, µs. Each is the spread of that quantile.
type Times struct {
	P50  Spread `json:"p50"`
	P99  Spread `json:"p99"`
	P999 Spread `json:"p999"`
}

// CarrierRow is a carrier with writes of one size.
type CarrierRow struct {
	Carrier   string  `json:"carrier"`
	Size      int     `json:"size"` // bytes
	Encrypted bool    `json:"encrypted"`
	Ratio     *Ratio  `json:"ratio,omitempty"` // of goodput
	Goodput   Spread  `json:"goodput_gbps"`
	Datagrams Spread  `json:"datagrams_per_s"`
	Each      Spread  `json:"datagram_bytes"` // of what is written, per datagram; 0 without datagrams
	Resent    Spread  `json:"resent_share"`
	NearCPU   Spread  `json:"near_cpu_s_per_gb"`
	FarCPU    Spread  `json:"far_cpu_s_per_gb"`
	Write     Times   `json:"write_us"`
	Answered  *Times  `json:"answered_us,omitempty"`
	Pieces    *Spread `json:"pieces_per_s,omitempty"`
	BytesSent uint64  `json:"bytes_sent"`   // in all rounds
	Placed    uint64  `json:"bytes_placed"` // of them, and found to be what was sent last
}

// ReferenceRow is a reference.
type ReferenceRow struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Goodput *Spread `json:"goodput_gbps,omitempty"`
	Lost    *Spread `json:"lost_share,omitempty"`
	NearCPU *Spread `json:"near_cpu_s_per_gb,omitempty"`
	FarCPU  *Spread `json:"far_cpu_s_per_gb,omitempty"`
	Trip    *Times  `json:"trip_us,omitempty"`
	Barrier *Spread `json:"barrier_share,omitempty"`
}

// RunRow is one kind of whole run.
type RunRow struct {
	Name    string   `json:"name"`
	What    string   `json:"what"`
	Args    []string `json:"args"`
	Ratio   *Ratio   `json:"ratio,omitempty"` // of goodput, to the lossless or unfolded run of the same round
	Goodput Spread   `json:"goodput_gbps"`
	Events  Spread   `json:"event_rate_hz"`
	CPU     Spread   `json:"cpu_s_per_gb"`
	Resent  Spread   `json:"resent_share"` // of the chunks
}

// HostLimit is a limit that binds, and on which machine.
type HostLimit struct {
	Host string `json:"host"` // near or far
	hostlimits.Finding
}

// spread of figures, at least one.
func spread(v []float64) Spread {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}

// over collects a figure of the rounds that have it.
func over[T any](rounds []*round, get func(*round) (T, bool), figure func(T) float64) []float64 {
	var out []float64
	for _, r := range rounds {
		if t, ok := get(r); ok {
			out = append(out, figure(t))
		}
	}
	return out
}

func cellOf(k cellKey) func(*round) (cellResult, bool) {
	return func(r *round) (cellResult, bool) { c, ok := r.cells[k]; return c, ok }
}

func refOf(name string) func(*round) (refResult, bool) {
	return func(r *round) (refResult, bool) { f, ok := r.refs[name]; return f, ok }
}

func runOf(name string) func(*round) (runResult, bool) {
	return func(r *round) (runResult, bool) { f, ok := r.runs[name]; return f, ok }
}

// ratios of two figures of the same round.
func ratios[A, B any](rounds []*round, a func(*round) (A, bool), fa func(A) float64, b func(*round) (B, bool),
	fb func(B) float64) []float64 {
	var out []float64
	for _, r := range rounds {
		x, okA := a(r)
		y, okB := b(r)
		if okA && okB && fb(y) > 0 && !math.IsInf(fa(x), 0) {
			out = append(out, fa(x)/fb(y))
		}
	}
	return out
}

func cellGbps(c cellResult) float64 { return c.Gbps }
func refGbps(r refResult) float64   { return r.Gbps }
func runGbps(r runResult) float64   { return r.Gbps }

func times[T any](rounds []*round, get func(*round) (T, bool), q func(T) quantiles) Times {
	return Times{
		P50:  spread(over(rounds, get, func(t T) float64 { return q(t).P50 })),
		P99:  spread(over(rounds, get, func(t T) float64 { return q(t).P99 })),
		P999: spread(over(rounds, get, func(t T) float64 { return q(t).P999 })),
	}
}

// compared is which references a carrier is compared with at a size.
func (c *carrier) compared(size int) []string {
	if c.against[0] == refCopy && size <= smallWrite {
		return []string{refCopySmall}
	}
	return c.against
}

// summarize fills the tables of a report from its rounds. It is a pure function of them.
func (r *Report) summarize(names []string, spinning, runs bool, rounds []*round) {
	r.carrierRows(names, rounds)
	r.referenceRows(rounds)
	r.runRows(names, rounds)
	r.Targets = targets(names, spinning, runs, rounds)
	for _, list := range []*[]string{&r.LeftOut, &r.Failed} {
		if *list == nil {
			*list = []string{} // JSON: a list, not null
		}
	}
	if r.Limits == nil {
		r.Limits = []HostLimit{}
	}
}

func (r *Report) carrierRows(names []string, rounds []*round) {
	r.Carriers = []CarrierRow{}
	for _, c := range carriers {
		if slices.Contains(names, c.Name) {
			for _, size := range sizesOf(rounds, c.Name) {
				r.Carriers = append(r.Carriers, carrierRow(c, size, rounds))
			}
		}
	}
}

// sizesOf are the sizes that a carrier was measured with, in order.
func sizesOf(rounds []*round, name string) []int {
	var out []int
	for _, r := range rounds {
		for k := range r.cells {
			if k.carrier == name {
				out = append(out, k.size)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func carrierRow(c carrier, size int, rounds []*round) CarrierRow {
	get := cellOf(cellKey{c.Name, size})
	of := func(f func(cellResult) float64) Spread { return spread(over(rounds, get, f)) }
	row := CarrierRow{
		Carrier: c.Name, Size: size, Encrypted: !c.open(), Goodput: of(cellGbps),
		Datagrams: of(func(c cellResult) float64 { return c.Datagrams }), Each: of(cellResult.each),
		Resent:  of(func(c cellResult) float64 { return c.Resent }),
		NearCPU: of(func(c cellResult) float64 { return c.NearCPU }),
		FarCPU:  of(func(c cellResult) float64 { return c.FarCPU }),
		Write:   times(rounds, get, func(c cellResult) quantiles { return c.Write }),
	}
	for _, name := range c.compared(size) {
		if v := ratios(rounds, get, cellGbps, refOf(name), refGbps); v != nil {
			row.Ratio = &Ratio{name, spread(v)}
			break
		}
	}
	for _, one := range rounds {
		row.BytesSent += one.cells[cellKey{c.Name, size}].Sent
		row.Placed += one.cells[cellKey{c.Name, size}].Here
	}
	if size <= smallWrite {
		t := times(rounds, get, func(c cellResult) quantiles { return c.Answered })
		row.Answered = &t
	}
	if p := of(func(c cellResult) float64 { return c.Pieces }); p.Max > 0 {
		row.Pieces = &p
	}
	return row
}

func (r *Report) referenceRows(rounds []*round) {
	r.References = []ReferenceRow{}
	for _, name := range []string{refCopy, refCopySmall, refUDP, refTCP, refQUIC, refIPerf, refMPIShm, refMPITCP, refTrip, refTripSpin} {
		get := refOf(name)
		found := over(rounds, get, refGbps)
		if found == nil {
			continue
		}
		row := ReferenceRow{Name: name, What: what[name]}
		of := func(f func(refResult) float64) *Spread { s := spread(over(rounds, get, f)); return &s }
		if name == refTrip || name == refTripSpin {
			t := times(rounds, get, func(f refResult) quantiles { return f.Trip })
			row.Trip = &t
			r.References = append(r.References, row)
			continue
		}
		row.Goodput = of(refGbps)
		if cpu := of(func(f refResult) float64 { return f.NearCPU }); cpu.Max > 0 {
			row.NearCPU = cpu
		}
		if cpu := of(func(f refResult) float64 { return f.FarCPU }); cpu.Max > 0 {
			row.FarCPU = cpu
		}
		switch name {
		case refUDP, refQUIC:
			row.Lost = of(func(f refResult) float64 { return f.Lost })
		case refMPIShm, refMPITCP:
			row.Barrier = of(func(f refResult) float64 { return f.BarrierShare })
		}
		r.References = append(r.References, row)
	}
}

func (r *Report) runRows(names []string, rounds []*round) {
	for _, spec := range runSpecs(names) {
		get := runOf(spec.name)
		if over(rounds, get, runGbps) == nil {
			continue
		}
		of := func(f func(runResult) float64) Spread { return spread(over(rounds, get, f)) }
		row := RunRow{
			Name: spec.name, What: spec.what, Args: spec.args, Goodput: of(runGbps),
			Events: of(func(f runResult) float64 { return f.Events }),
			CPU:    of(func(f runResult) float64 { return f.CPU }),
			Resent: of(func(f runResult) float64 { return float64(f.Resent) / float64(cmp.Or(f.Sent, 1)) }),
		}
		if base := spec.base(); base != "" {
			if v := ratios(rounds, get, runGbps, runOf(base), runGbps); v != nil {
				row.Ratio = &Ratio{base, spread(v)}
			}
		}
		r.Runs = append(r.Runs, row)
	}
}
