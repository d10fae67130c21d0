package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// LatencyConfig says which writes go there and back.
type LatencyConfig struct {
	NodesConfig
	Size       config.Bytes    // of a write: whole words of 8 bytes, at most 1 KiB, so that a packet holds it
	Processing []time.Duration // how long the other node works before it answers a write
	Duration   time.Duration   // of each measurement
}

// maxProcessing keeps a measurement from timing the processing alone.
const maxProcessing = 10 * time.Millisecond

// Validate returns the first invalid setting as a *UsageError.
func (c *LatencyConfig) Validate() error {
	if carrier, _ := carrierOf(c.Carrier); carrier.SameHost {
		return usageErrorf("carrier", "%s has no socket: the kernel cannot tell when a write is sent and received", c.Carrier)
	}
	if err := checkWords("size", c.Size, maxSmallWrite); err != nil {
		return err
	}
	if len(c.Processing) == 0 {
		return usageErrorf("processing", "no time is given: give some as 1us,5us")
	}
	for _, p := range c.Processing {
		if err := checkRange("processing", p, 0, maxProcessing); err != nil {
			return err
		}
	}
	return c.validate(c.Duration)
}

// latencyReport has the latencies; `ringlet bench latency --json` prints it.
type latencyReport struct {
	nodesReport
	Size int          `json:"size"`
	Rows []latencyRow `json:"latencies"`
}

// latencyRow is the result for one processing time. Times are of round trips, µs.
type latencyRow struct {
	ProcessingUs          float64 `json:"processing_us"`
	Trips                 int     `json:"trips"`
	IncompleteTrips       int     `json:"left_out"`          // trips for which the kernel gave a time-stamp too few
	RoundTrip             float64 `json:"trip_us"`           // median, with the processing
	TripDeviation         float64 `json:"trip_deviation_us"` // half of the width of the middle 68 %
	NetworkTime           float64 `json:"network_us"`        // of the trip: between the two kernels, there and back
	SoftwareTime          float64 `json:"software_us"`       // of the trip: the rest without processing and network
	TripWithoutProcessing float64 `json:"apart_us"`          // the trip without the processing
	Error                 string  `json:"error,omitempty"`
}

func (r *latencyRow) label() (title, figure string) {
	return "latency", fmt.Sprintf("%gus", r.ProcessingUs)
}

func (r *latencyRow) faults() (wrong, lost uint64, why string) { return 0, 0, r.Error }

// prepare lists the processing times.
func (c *LatencyConfig) prepare() (*latencyReport, []point, func() error, error) {
	r := &latencyReport{
		nodesReport: c.report(),
		Size:        int(c.Size),
		Rows:        []latencyRow{},
	}
	var points []point
	for _, p := range c.Processing {
		points = append(points, rowPoint(&r.Rows, fmt.Sprintf("latency with a processing of %s", p),
			func(ctx context.Context, view uint64) (latencyRow, error) { return c.latency(ctx, p, view) }))
	}
	return r, points, nil, nil
}

// firstTimestampTimeout is how long a measurement goes on until the kernel gives a first time-stamp. If no other socket
// asks for time-stamps, the kernel turns them on in deferred work, which comes late on a busy machine.
const firstTimestampTimeout = 5 * time.Second

// tripTest is a round trip under way, with the kernel's time-stamps, ns since 1970.
type tripTest struct {
	all             []*station
	receivedAt      [2]atomic.Int64 // by rank: when the kernel received the write
	sentAt          [2][]int64      // by rank: when the kernel sent packets; used by the goroutine that begins the writes
	trips           []int64         // ns
	network         []int64         // ns: of the trips with all time-stamps
	incompleteTrips int
}

// latency sends writes there and back, and separates the network's share of the time.
func (c *LatencyConfig) latency(ctx context.Context, p time.Duration, view uint64) (latencyRow, error) {
	v := &tripTest{}
	var open atomic.Pointer[[]*station]
	m := stationsConfig{
		nodes:      &c.NodesConfig,
		view:       view,
		pairs:      pingPongPairs,
		size:       int(c.Size),
		batch:      1,
		timestamps: true,
		onWrite: func(rank int) {
			if all := open.Load(); all != nil {
				v.receivedAt[rank].Store((*all)[rank].network.LastReceiveTime())
			}
		},
	}
	err := m.with(ctx, func(all []*station) error {
		v.all = all
		open.Store(&all)
		first := time.Now()
		return runFor(c.Duration, func(over *atomic.Bool) error {
			return roundTrips(ctx, all, p, func() bool {
				return !over.Load() || len(v.trips) == 0 && time.Since(first) < firstTimestampTimeout
			}, func(took time.Duration) { v.recordTrip(int64(took)) })
		})
	})
	return v.latencyRow(p), err
}

// recordTrip takes the times of one trip. The packet that was received is the last one that was sent before.
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

// latencyRow takes the medians.
func (v *tripTest) latencyRow(p time.Duration) latencyRow {
	row := latencyRow{
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

// documentLatency is from TagNet-farm §IV.D, table IV-3, µs by suspension.
var documentLatency = map[float64]string{1: "8.13 ± 0.86", 2: "8.95 ± 0.85", 5: "11.90 ± 1.02"}

// WriteTable prints the report as a table, beside the figures of TagNet-farm.
func (r *latencyReport) WriteTable(w io.Writer) error {
	r.writeHead(w, "what was measured until then",
		"writes of %s there and back over %s, one at a time, two nodes of one process on %d cores", config.Bytes(r.Size),
		r.Carrier, r.Cores)
	µs := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	for _, l := range r.Rows {
		if l.Error != "" || l.IncompleteTrips > 0 {
			fmt.Fprintf(w, "processing %s µs: %d trips left out, %s\n", µs(l.ProcessingUs), l.IncompleteTrips, l.Error)
		}
	}
	return trial.Table(w, "Medians, µs; network: from the kernel that sends to the one that receives, both ways", []string{
		"processing", "trips", "there and back", "less processing", "network", "software", "TagNet-farm §IV.D"},
		trial.RowsOf(r.Rows, func(l *latencyRow) []string {
			return []string{
				µs(l.ProcessingUs), fmt.Sprint(l.Trips), µs(l.RoundTrip) + " ± " + µs(l.TripDeviation),
				µs(l.TripWithoutProcessing), µs(l.NetworkTime), µs(l.SoftwareTime),
				cmp.Or(documentLatency[l.ProcessingUs], trial.NoFigure),
			}
		}))
}
