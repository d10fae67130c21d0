package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// LatencyConfig says how writes go there and back.
type LatencyConfig struct {
	NodesConfig
	Size       config.Bytes    // of a write: whole words of 8 bytes, at most 1 KiB, so that a packet holds it
	Processing []time.Duration // how long the other node works on a write before it answers
	Duration   time.Duration   // of each measurement
}

// maxProcessing keeps a measurement from being one of the work alone.
const maxProcessing = 10 * time.Millisecond

// Validate says what of the settings cannot be, as a *UsageError.
func (c *LatencyConfig) Validate() error {
	if carrier, _ := carrierOf(c.Carrier); carrier.SameHost {
		return usageErrorf("carrier", "%s has no socket: the kernel cannot tell when a write is sent and received", c.Carrier)
	}
	if c.Size < wordSize || c.Size > maxSmallWrite || c.Size%wordSize != 0 {
		return usageErrorf("size", "%s is not whole words of 8 B, from 8 B to %s", c.Size, config.Bytes(maxSmallWrite))
	}
	if len(c.Processing) == 0 {
		return usageErrorf("processing", "there is none to measure: give some as 1us,5us")
	}
	for _, p := range c.Processing {
		if p < 0 || p > maxProcessing {
			return usageErrorf("processing", "%s is not between 0s and %s", p, maxProcessing)
		}
	}
	return c.valid(c.Duration)
}

// LatencyReport is what the latencies were, as `ringlet bench latency --json` prints it.
type LatencyReport struct {
	nodesReport
	Size int          `json:"size"`
	Rows []LatencyRow `json:"latencies"`
}

// LatencyRow is one time of processing. Times are of writes there and back, µs.
type LatencyRow struct {
	ProcessingUs          float64 `json:"processing_us"`
	Trips                 int     `json:"trips"`
	IncompleteTrips       int     `json:"left_out"`          // trips of which a time of the kernel is missing
	RoundTrip             float64 `json:"trip_us"`           // median, the processing in it
	TripDeviation         float64 `json:"trip_deviation_us"` // half of what the middle 68 % differ by
	NetworkTime           float64 `json:"network_us"`        // of it, between the kernels, there and back
	SoftwareTime          float64 `json:"software_us"`       // what is left when processing and network are taken off
	TripWithoutProcessing float64 `json:"apart_us"`          // the trip without the processing
	Error                 string  `json:"error,omitempty"`
}

// Latency sends writes there and back, and tells what of the time is the network's.
func Latency(ctx context.Context, cfg LatencyConfig) (*LatencyReport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &LatencyReport{
		nodesReport: cfg.report(),
		Size:        int(cfg.Size),
		Rows:        []LatencyRow{},
	}
	for i, p := range cfg.Processing {
		row, err := cfg.latency(ctx, p, uint64(i+1))
		if r.Interrupted = ctx.Err() != nil; r.Interrupted {
			return r, nil
		}
		if err != nil {
			return r, fmt.Errorf("bench: latency with a processing of %s: %w", p, err)
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// firstTimestampTimeout is how long a measurement goes on until the kernel gives a first time. Where no other socket
// asks for times, the kernel begins to take them in work of its own, and on a busy machine that comes late.
const firstTimestampTimeout = 5 * time.Second

// tripTest is a write there and back under way, with the kernel's times, ns since 1970.
type tripTest struct {
	all             []*station
	receivedAt      [2]atomic.Int64 // by rank: when the kernel had the write
	sentAt          [2][]int64      // by rank: when it sent packets; owned by who begins the writes
	trips           []int64         // ns
	network         []int64         // ns: of those trips that are whole
	incompleteTrips int
}

func (c *LatencyConfig) latency(ctx context.Context, p time.Duration, view uint64) (row LatencyRow, err error) {
	v := &tripTest{}
	m := c.stationsConfig(view, 2)
	m.timestamps = true
	var all atomic.Pointer[[]*station]
	m.onWrite = func(rank int) {
		if s := all.Load(); s != nil {
			v.receivedAt[rank].Store((*s)[rank].network.LastReceiveTime())
		}
	}
	v.all, err = openStations(ctx, m, map[int][]int{0: {1}, 1: {0}}, int(c.Size), 1)
	defer func() { err = errors.Join(err, closeStations(v.all)) }()
	if err != nil {
		return row, err
	}
	all.Store(&v.all)
	err = runFor(c.Duration, func(over *atomic.Bool) error { return v.runTrips(ctx, p, over) })
	if err != nil {
		return row, err
	}
	return v.latencyRow(p), nil
}

// runTrips sends writes there and back until over.
func (v *tripTest) runTrips(ctx context.Context, p time.Duration, over *atomic.Bool) error {
	near, far := v.all[0], v.all[1]
	there, back := near.outFlows[1], far.outFlows[0]
	g, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	g.Go(func() error { // the other node
		for n := uint64(1); ; n++ {
			err := far.await(ctx, func() bool { return there.checkedWrites.Load() >= n })
			for until := time.Now().Add(p); err == nil && time.Now().Before(until); {
				runtime.KeepAlive(p) // it works: a sleep would take longer
			}
			if err == nil {
				_, err = far.send(ctx, back, 1)
			}
			if err != nil && errors.Is(context.Cause(ctx), errEnough) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	g.Go(func() error {
		defer end(errEnough)
		first := time.Now()
		for n := uint64(1); ctx.Err() == nil && (!over.Load() || len(v.trips) == 0 &&
			time.Since(first) < firstTimestampTimeout); n++ {
			began := time.Now()
			_, err := near.send(ctx, there, 1)
			if err == nil {
				err = near.await(ctx, func() bool { return back.checkedWrites.Load() >= n })
			}
			if err != nil {
				return err
			}
			v.recordTrip(int64(time.Since(began)))
		}
		return near.await(ctx, near.idle)
	})
	return g.Wait()
}

// recordTrip takes the times of one trip. The packet that was received is the last of those that were sent before.
func (v *tripTest) recordTrip(took int64) {
	network := int64(0)
	for from := range v.all {
		v.sentAt[from] = v.all[from].network.AppendSendTimes(v.sentAt[from][:0])
		seen, sent := v.receivedAt[1-from].Swap(0), int64(0)
		for _, at := range v.sentAt[from] {
			if at <= seen {
				sent = max(sent, at)
			}
		}
		if sent == 0 {
			v.incompleteTrips++
			return
		}
		network += seen - sent
	}
	v.trips, v.network = append(v.trips, took), append(v.network, network)
}

// latencyRow makes the medians.
func (v *tripTest) latencyRow(p time.Duration) LatencyRow {
	row := LatencyRow{
		ProcessingUs:    float64(p) / 1e3,
		Trips:           len(v.trips),
		IncompleteTrips: v.incompleteTrips,
	}
	if row.Trips == 0 {
		row.Error = "the kernel gave no times of packets"
		return row
	}
	software := make([]int64, len(v.trips))
	for i := range software {
		software[i] = v.trips[i] - v.network[i] - int64(p)
	}
	at := func(ns []int64, q float64) float64 {
		return float64(ns[min(len(ns)-1, int(math.Round(q*float64(len(ns)-1))))]) / 1e3
	}
	for _, list := range [...][]int64{v.trips, v.network, software} {
		slices.Sort(list)
	}
	row.RoundTrip, row.NetworkTime, row.SoftwareTime = at(v.trips, 0.5), at(v.network, 0.5), at(software, 0.5)
	row.TripDeviation = (at(v.trips, 0.84) - at(v.trips, 0.16)) / 2
	row.TripWithoutProcessing = row.RoundTrip - row.ProcessingUs
	return row
}

// documentLatency is that of TagNet-farm §IV.D, table IV-3, µs by suspension.
var documentLatency = map[float64]string{1: "8.13 ± 0.86", 2: "8.95 ± 0.85", 5: "11.90 ± 1.02"}

// WriteTable prints the report for people, with what TagNet-farm had.
func (r *LatencyReport) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "writes of %s there and back over %s, one at a time, two nodes of one process on %d cores\n%s\n",
		config.Bytes(r.Size), r.Carrier, r.Cores, &r.Machine)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is what was measured until then")
	}
	var rows [][]string
	for i := range r.Rows {
		l, document := &r.Rows[i], trial.NoFigure
		if text, is := documentLatency[l.ProcessingUs]; is {
			document = text
		}
		µs := func(v float64) string { return fmt.Sprintf("%.2f", v) }
		rows = append(rows, []string{
			µs(l.ProcessingUs), fmt.Sprint(l.Trips), µs(l.RoundTrip) + " ± " +
				µs(l.TripDeviation), µs(l.TripWithoutProcessing), µs(l.NetworkTime),
			µs(l.SoftwareTime), document,
		})
		if l.Error != "" || l.IncompleteTrips > 0 {
			fmt.Fprintf(w, "processing %s µs: %d trips left out, %s\n", µs(l.ProcessingUs), l.IncompleteTrips, l.Error)
		}
	}
	return trial.Table(w, "Medians, µs; network: from the kernel that sends to the one that receives, both ways", []string{
		"processing", "trips", "there and back", "less processing", "network", "software", "TagNet-farm §IV.D"}, rows)
}

// measureLatency takes the processing times of TagNet-farm; its figures are "1us.trip_us" and so on.
func measureLatency(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	cfg := LatencyConfig{
		NodesConfig: c,
		Size:        128,
		Processing:  []time.Duration{time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond},
		Duration:    d / 3,
	}
	r, err := Latency(ctx, cfg)
	if err != nil {
		return nil, err
	}
	f := trial.Figures{}
	for i := range r.Rows {
		if r.Rows[i].Error != "" {
			return nil, fmt.Errorf("bench: latency: %s", r.Rows[i].Error)
		}
		for name, v := range figuresOf(&r.Rows[i]) {
			f[fmt.Sprintf("%gus.%s", r.Rows[i].ProcessingUs, name)] = v
		}
	}
	return f, nil
}
