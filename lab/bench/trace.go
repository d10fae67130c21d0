package bench

import (
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

// TraceConfig says what is followed.
type TraceConfig struct {
	NodesConfig
	Size   config.Bytes // of a write: whole words of 8 bytes, at most 1 KiB, so that a datagram holds it
	Writes int          // one at a time
}

// maxTraced bounds the writes: each takes 80 bytes.
const maxTraced = 10_000_000

// Validate says what of the settings cannot be, as a *UsageError.
func (c *TraceConfig) Validate() error {
	if err := c.valid(minDuration); err != nil {
		return err
	}
	carrier, _ := carrierOf(c.Carrier)
	switch {
	case carrier.SameHost:
		return usageErrorf("carrier", "%s has no stages: the writer itself copies into the other's memory", c.Carrier)
	case c.Size < wordSize || c.Size > maxSmallWrite || c.Size%wordSize != 0:
		return usageErrorf("size", "%s is not whole words of 8 B, from 8 B to %s", c.Size, config.Bytes(maxSmallWrite))
	case c.Writes < 1 || c.Writes > maxTraced:
		return usageErrorf("writes", "%d are not between 1 and %d", c.Writes, maxTraced)
	}
	return nil
}

// TraceReport is what writes were followed to, as `ringlet bench trace --json` prints it.
type TraceReport struct {
	nodesReport
	Size             int          `json:"size"` // bytes of a write
	FollowedWrites   int          `json:"writes"`
	IncompleteWrites int          `json:"incomplete"` // writes of which a stage was not seen in order: left out
	Stages           []TraceStage `json:"stages"`
	Bound            TraceBound   `json:"bound"`
	Simulated        []TraceStage `json:"simulated"` // of the bridge of SCI-bridge §IV §IV
	SimulatedBound   TraceBound   `json:"simulated_bound"`
}

// TraceStage is one stage. Times are medians.
type TraceStage struct {
	Name string  `json:"name"`
	Says string  `json:"says"`
	Took float64 `json:"took_us"` // since the stage before it
	At   float64 `json:"at_us"`   // since the call
}

// TraceBound is how much passes at most where one packet follows the other, each with stages of its own: its size over
// the longest stage.
type TraceBound struct {
	PacketSize   int     `json:"packet"` // bytes
	LongestStage string  `json:"longest"`
	Took         float64 `json:"took_us"`
	MByteS       float64 `json:"mbyte_per_s"` // million bytes
}

// BoundOf applies the formula.
func BoundOf(packet int, longest string, tookUs float64) TraceBound {
	b := TraceBound{PacketSize: packet, LongestStage: longest, Took: tookUs}
	if tookUs > 0 {
		b.MByteS = float64(packet) / tookUs
	}
	return b
}

// Trace follows writes, one at a time, from the call to the answer.
func Trace(ctx context.Context, cfg TraceConfig) (r *TraceReport, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := stages.New()
	m := cfg.stationsConfig(1, 2)
	m.follow = func(rank int) func(transport.Stage) { return t.Follow(rank == 1) }
	all, err := openStations(ctx, m, map[int][]int{0: {1}}, int(cfg.Size), 1)
	defer func() { err = errors.Join(err, closeStations(all)) }()
	if err != nil {
		return nil, err
	}
	r = &TraceReport{
		nodesReport: cfg.report(),
		Size:        int(cfg.Size),
		Stages:      []TraceStage{},
		Simulated:   []TraceStage{},
	}
	took, at, err := r.follow(ctx, t, all, cfg.Writes)
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		err = nil
	}
	r.fillStages(took, at)
	return r, err
}

// follow follows so many writes, and gives for each stage how long it took and when it was over, ns.
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
				return took, at, errors.Join(ctx.Err(), fmt.Errorf("bench: write %d was not seen in time", r.FollowedWrites))
			}
		}
		r.recordWrite(t, began, &took, &at)
	}
	return took, at, nil
}

// recordWrite takes the times of one write.
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

// fillStages makes the medians.
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
		// The way and the wake-up hold up no other packet.
		occupies := i < int(transport.StageReceiverNotified) && i != int(transport.StageReceived)
		if occupies && r.Stages[i].Took > r.Stages[longest].Took {
			longest = i
		}
	}
	r.Bound = BoundOf(r.Size, r.Stages[longest].Name, r.Stages[longest].Took)
}

// WriteTable prints both tables beside each other, and the bounds.
func (r *TraceReport) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d writes of %s over %s, one at a time, two nodes of one process on %d cores\n%s\n", r.FollowedWrites,
		config.Bytes(r.Size), r.Carrier, r.Cores, &r.Machine)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is of the writes so far")
	}
	if r.IncompleteWrites > 0 {
		fmt.Fprintf(w, "%d more are left out: a stage of them was not seen\n", r.IncompleteWrites)
	}
	var rows [][]string
	for i := range max(len(r.Stages), len(r.Simulated)) {
		row := []string{"", "", "", "", "", ""}
		if i < len(r.Stages) {
			s := r.Stages[i]
			row[0], row[1], row[2] = s.Name, fmt.Sprintf("%.2f", s.Took), fmt.Sprintf("%.2f", s.At)
		}
		if i < len(r.Simulated) {
			s := r.Simulated[i]
			row[3], row[4], row[5] = s.Name+" "+s.Says, fmt.Sprintf("%.2f", s.Took), fmt.Sprintf("%.2f", s.At)
		}
		rows = append(rows, row)
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
