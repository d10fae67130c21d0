package metrics

import (
	"net/http"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"

	"ringlet/internal/counter"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Metrics of a node, beside its counters.
var (
	ofNode metrics

	nodeInfo = ofNode.add("ringlet_node_info", gauge,
		"1: the node and the version of its program.", "node", "version")
	nodeState = ofNode.add("ringlet_node_state", gauge,
		"1 for the state the node is in, 0 for the others.", "state")
	nodeChanging = ofNode.add("ringlet_node_in_between", gauge, "1 while a transition is under way.")
	nodeDegraded = ofNode.add("ringlet_node_degraded", gauge, "1 while it works, but not as it should.")
	nodeRun      = ofNode.add("ringlet_node_run_number", gauge,
		"Number of the run its counters belong to; 0 before the first.")
	nodeProcs    = ofNode.add("ringlet_node_processors", gauge, "Processors that the process may use at a time.")
	nodeMemory   = ofNode.add("ringlet_node_memory_limit_bytes", gauge, "Memory that the process may use.")
	nodeDisk     = ofNode.add("ringlet_node_output_disk_bytes", gauge, "Size of the file system of the output.")
	nodeDiskFree = ofNode.add("ringlet_node_output_disk_free_bytes", gauge,
		"What is free of the file system of the output.")
	nodeBarrier = ofNode.add("ringlet_ru_barrier_wait_seconds", summary, "Time in the barrier, per epoch.")
	nodeWritten = ofNode.add("ringlet_peer_bytes_written_total", counted,
		"Bytes that the readout unit has written to the builder unit of a peer.", "peer")
	nodeSent = ofNode.add("ringlet_peer_chunks_sent_total", counted,
		"Chunks sent to a peer, repetitions included.", "peer")
	nodeResent = ofNode.add("ringlet_peer_chunks_resent_total", counted, "Chunks sent to a peer again.", "peer")
	nodePlaced = ofNode.add("ringlet_peer_chunks_placed_total", counted,
		"Chunks of a peer that were put in their place.", "peer")
	nodeDuplicate = ofNode.add("ringlet_peer_chunks_duplicate_total", counted,
		"Chunks of a peer that had been here before.", "peer")
)

// summaries are the histograms of a report, and what they are called here.
var summaries = []struct {
	histogram string
	of        *Metric
}{
	{"barrier_us", nodeBarrier},
	{"decision_us", ofNode.add("ringlet_dec_decision_latency_seconds", summary,
		"From when an event was known to be triggered to its decision, per event.")},
	{"building_us", ofNode.add("ringlet_dec_building_latency_seconds", summary,
		"Of that, until the last byte was in the builder unit, with the way of the result.")},
	{"judged_us", ofNode.add("ringlet_dec_judged_latency_seconds", summary,
		"Of that, from the last byte to the verdict of the builder unit.")},
	{"ordering_us", ofNode.add("ringlet_dec_ordering_latency_seconds", summary,
		"Of that, from when the result came to the decision.")},
	{"filter_wait_us", ofNode.add("ringlet_bu_filter_wait_latency_seconds", summary,
		"From the last byte of an event until the filter had it.")},
	{"filter_us", ofNode.add("ringlet_bu_filter_latency_seconds", summary, "In the filter, per event.")},
	{"host_us", ofNode.add("ringlet_host_latency_seconds", summary,
		"With debug.stamps: from when the kernel had a packet until it was taken in.")},
}

// NodeMetrics are those of a node with these counters; what Go and the kernel tell comes on top.
func NodeMetrics(counters counter.List) []Metric { return ofNode.with(counters, ofCounter) }

// States of the component state machine that are stable.
var states = []string{"Offline", "NotReady", "Ready", "Running", "Paused", "Error"}

// Node makes what serves the metrics of a node process with these counters: report tells how it stands, certified until
// when its certificate is good.
func Node(counters counter.List, certified func() time.Time) func(report func() *nodev1.Report) http.Handler {
	return func(report func() *nodev1.Report) http.Handler {
		return handler(func(out chan<- prometheus.Metric) { tellNode(out, counters, report()) }, certified)
	}
}

func tellNode(out chan<- prometheus.Metric, counters counter.List, r *nodev1.Report) {
	nodeInfo.tell(out, 1, r.GetName(), r.GetVersion())
	for _, s := range states {
		nodeState.tell(out, flag(s == r.GetStatus().GetState()), s)
	}
	nodeChanging.tell(out, flag(r.GetStatus().GetInBetween() != ""))
	nodeDegraded.tell(out, flag(r.GetStatus().GetDegraded()))
	nodeRun.tell(out, float64(r.GetRun()))
	m := r.GetMachine()
	nodeProcs.tell(out, float64(m.GetProcessors()))
	nodeMemory.tell(out, float64(m.GetMemoryBytes()))
	if m.GetDiskBytes() > 0 {
		nodeDisk.tell(out, float64(m.GetDiskBytes()))
		nodeDiskFree.tell(out, float64(m.GetDiskFreeBytes()))
	}
	for i := range counters {
		tellCounter(out, &counters[i], r.GetCounters())
	}
	for _, l := range r.GetLinks() {
		for _, x := range [...]struct {
			of *Metric
			v  uint64
		}{
			{nodeWritten, l.GetBytesWritten()}, {nodeSent, l.GetChunksSent()}, {nodeResent, l.GetChunksResent()},
			{nodePlaced, l.GetChunksPlaced()},
			{nodeDuplicate, l.GetChunksDuplicate()},
		} {
			x.of.tell(out, float64(x.v), l.GetPeer())
		}
	}
	for _, s := range summaries {
		tellSummary(out, s.of, r.GetHistograms()[s.histogram])
	}
}

// tellCounter tells a counter of a report, if it is there, or all those by kind that are.
func tellCounter(out chan<- prometheus.Metric, c *counter.Counter, report map[string]uint64) {
	m, factor := ofCounter(c), 1.0
	if c.Unit == counter.Micros {
		factor = 1e-6
	}
	if !c.ByKind {
		if v, told := report[c.Name]; told {
			m.tell(out, float64(v)*factor)
		}
		return
	}
	for name, v := range report {
		if kind, ok := strings.CutPrefix(name, c.Name); ok {
			m.tell(out, float64(v)*factor, kind)
		}
	}
}

// tellSummary makes a summary of a histogram in µs.
func tellSummary(out chan<- prometheus.Metric, of *Metric, encoded []byte) {
	if len(encoded) == 0 {
		return
	}
	h, err := hdr.Decode(encoded)
	if err != nil {
		return
	}
	quantiles := map[float64]float64{}
	for _, q := range []float64{0.5, 0.99, 0.999} {
		quantiles[q] = float64(h.ValueAtQuantile(100*q)) / 1e6
	}
	n := h.TotalCount()
	s, err := prometheus.NewConstSummary(of.desc(), uint64(n), h.Mean()*float64(n)/1e6, quantiles)
	if err == nil {
		out <- s
	}
}
