package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"ringlet/lab/stages"
	"ringlet/lab/trial"
	"ringlet/node/config"
	"ringlet/transport"
)

// TraceConfig says which writes are followed.
type TraceConfig struct {
	NodesConfig
	Size   config.Bytes // of a write: whole words of 8 bytes, at most 1 KiB, so that a datagram holds it
	Writes int          // one at a time
	// AddSimulated adds the stages of a simulator to the report; it may be nil.
	AddSimulated func(r *TraceReport) error
}

// maxTraced bounds the writes: each takes 80 bytes of memory.
const maxTraced = 10_000_000

// Validate returns the first invalid setting as a *UsageError.
func (c *TraceConfig) Validate() error {
	if carrier, _ := carrierOf(c.Carrier); carrier.SameHost {
		return usageErrorf("carrier", "%s has no stages: the writer itself copies into the other's memory", c.Carrier)
	}
	return cmp.Or(c.validate(minDuration), checkWords("size", c.Size, maxSmallWrite),
		checkCount("writes", c.Writes, 1, maxTraced))
}

// TraceReport has the stages of the writes; `ringlet bench trace --json` prints it.
type TraceReport struct {
	nodesReport
	Size             int          `json:"size"` // bytes of a write
	FollowedWrites   int          `json:"writes"`
	IncompleteWrites int          `json:"incomplete"` // left out: a stage was not seen, or not in order
	Stages           []TraceStage `json:"stages"`
	Bound            TraceBound   `json:"bound"`
	Simulated        []TraceStage `json:"simulated"` // of the bridge of SCI-bridge §IV
	SimulatedBound   TraceBound   `json:"simulated_bound"`

	failed error // why the measurement ended early
}

// TraceStage is one stage. Times are medians.
type TraceStage struct {
	Name string  `json:"name"`
	Says string  `json:"says"`
	Took float64 `json:"took_us"` // since the stage before it
	At   float64 `json:"at_us"`   // since the call
}

// TraceBound is the largest throughput if packets follow each other and each stage works on one at a time: the packet's
// size over the time of the longest stage.
type TraceBound struct {
	PacketSize   int     `json:"packet"` // bytes
	LongestStage string  `json:"longest"`
	Took         float64 `json:"took_us"`
	MByteS       float64 `json:"mbyte_per_s"` // million bytes
}

// BoundOf computes it.
func BoundOf(packet int, longest string, tookUs float64) TraceBound {
	b := TraceBound{PacketSize: packet, LongestStage: longest, Took: tookUs}
	if tookUs > 0 {
		b.MByteS = float64(packet) / tookUs
	}
	return b
}

// Failure says why the measurement ended early, or that it was interrupted.
func (r *TraceReport) Failure() error { return cmp.Or(r.failed, r.nodesReport.Failure()) }

// prepare follows writes, one at a time, from the call to the answer.
func (c *TraceConfig) prepare() (*TraceReport, []point, func() error, error) {
	r := &TraceReport{
		nodesReport: c.report(),
		Size:        int(c.Size),
		Stages:      []TraceStage{},
		Simulated:   []TraceStage{},
	}
	var end func() error
	if c.AddSimulated != nil {
		end = func() error { return c.AddSimulated(r) }
	}
	return r, []point{{"trace", func(ctx context.Context, view uint64) error {
		t := stages.New()
		m := stationsConfig{
			nodes:  &c.NodesConfig,
			view:   view,
			pairs:  map[int][]int{0: {1}},
			size:   r.Size,
			batch:  1,
			follow: func(rank int) func(transport.Stage) { return t.Follow(rank == 1) },
		}
		return m.with(ctx, func(all []*station) error {
			took, at, err := r.follow(ctx, t, all, c.Writes)
			if ctx.Err() == nil {
				r.failed = err
			}
			r.fillStages(took, at)
			return nil
		})
	}}}, end, nil
}

// follow follows n writes, and returns for each stage how long it took and when it ended, ns.
func (r *TraceReport) follow(ctx context.Context, t *stages.Tracer, all []*station,
	n int) (took, at [stages.NumStages][]int64, err error) {
	s, l := all[0], all[0].outFlows[1]
	over := func() bool {
		return t.Passed(transport.StageReceiverNotified) > 0 && t.Passed(transport.StageWriterNotified) > 0 && s.idle()
	}
	for range n {
		began := t.Begin()
		if _, err := s.send(ctx, l, 1); err != nil {
			return took, at, err
		}
		for until := time.Now().Add(placementTimeout); !over(); {
			if err := s.await(ctx, s.idle); err != nil {
				return took, at, err
			}
			if runtime.Gosched(); ctx.Err() != nil || time.Now().After(until) {
				return took, at, errors.Join(ctx.Err(), fmt.Errorf("bench: write %d was not in place after %v", r.FollowedWrites,
					placementTimeout))
			}
		}
		r.recordWrite(t, began, &took, &at)
	}
	return took, at, nil
}

// recordWrite records the times of one write.
func (r *TraceReport) recordWrite(t *stages.Tracer, began int64, took, at *[stages.NumStages][]int64) {
	for i := range took {
		if t.Passed(transport.Stage(i)) < began {
			r.IncompleteWrites++
			return
		}
	}
	r.FollowedWrites++
	for i := range took {
		before, now := began, t.Passed(transport.Stage(i))
		if b := stages.Table[i].Predecessor; b != stages.Call {
			before = t.Passed(transport.Stage(b))
		}
		took[i] = append(took[i], now-before)
		at[i] = append(at[i], now-began)
	}
}

// fillStages takes the medians.
func (r *TraceReport) fillStages(took, at [stages.NumStages][]int64) {
	if r.FollowedWrites == 0 {
		return
	}
	longest := 0
	for i, s := range stages.Table {
		r.Stages = append(r.Stages, TraceStage{
			Name: s.Name,
			Says: s.Says,
			Took: stages.Median(took[i]),
			At:   stages.Median(at[i]),
		})
		// Transit and wake-up do not delay other packets.
		occupies := i < int(transport.StageReceiverNotified) && i != int(transport.StageReceived)
		if occupies && r.Stages[i].Took > r.Stages[longest].Took {
			longest = i
		}
	}
	r.Bound = BoundOf(r.Size, r.Stages[longest].Name, r.Stages[longest].Took)
}

// WriteTable prints both tables beside each other, and the bounds.
func (r *TraceReport) WriteTable(w io.Writer) error {
	r.writeHead(w, "of the writes so far", "%d writes of %s over %s, one at a time, two nodes of one process on %d cores",
		r.FollowedWrites, config.Bytes(r.Size), r.Carrier, r.Cores)
	if r.IncompleteWrites > 0 {
		fmt.Fprintf(w, "%d more are left out: a stage of them was not seen\n", r.IncompleteWrites)
	}
	var rows [][]string
	cells := func(all []TraceStage, i int, says bool) []string {
		if i >= len(all) {
			return []string{"", "", ""}
		}
		s, name := all[i], all[i].Name
		if says {
			name += " " + s.Says
		}
		return []string{name, fmt.Sprintf("%.2f", s.Took), fmt.Sprintf("%.2f", s.At)}
	}
	for i := range max(len(r.Stages), len(r.Simulated)) {
		rows = append(rows, append(cells(r.Stages, i, false), cells(r.Simulated, i, true)...))
	}
	if err := trial.Table(w, "Medians here, and the bridge (SCI-bridge §IV) in the simulator", []string{"stage", "took µs",
		"at µs", "bridge", "took µs", "at µs"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nBound: packet / longest stage\n")
	for _, b := range []struct {
		where string
		TraceBound
	}{{"here", r.Bound}, {"bridge", r.SimulatedBound}} {
		if b.Took > 0 {
			fmt.Fprintf(w, "  %-7s %d B / %.2f µs (%s) = %.1f MByte/s\n", b.where, b.PacketSize, b.Took, b.LongestStage,
				b.MByteS)
		}
	}
	return nil
}
