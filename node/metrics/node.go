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
	nodeTable metricTable

	nodeInfo = nodeTable.add("ringlet_node_info", kindGauge,
		"1: the node and the version of its program.", "node", "version")
	nodeState = nodeTable.add("ringlet_node_state", kindGauge,
		"1 for the state the node is in, 0 for the others.", "state")
	nodeInTransition = nodeTable.add("ringlet_node_in_between", kindGauge, "1 while a transition is under way.")
	nodeDegraded     = nodeTable.add("ringlet_node_degraded", kindGauge, "1 while it works, but not as it should.")
	nodeRunNumber    = nodeTable.add("ringlet_node_run_number", kindGauge,
		"Number of the run its counters belong to; 0 before the first.")
	nodeProcessors  = nodeTable.add("ringlet_node_processors", kindGauge, "Processors that the process may use at a time.")
	nodeMemoryLimit = nodeTable.add("ringlet_node_memory_limit_bytes", kindGauge, "Memory that the process may use.")
	nodeDiskSize    = nodeTable.add("ringlet_node_output_disk_bytes", kindGauge, "Size of the file system of the output.")
	nodeDiskFree    = nodeTable.add("ringlet_node_output_disk_free_bytes", kindGauge,
		"What is free of the file system of the output.")
	nodeBarrierWait  = nodeTable.add("ringlet_ru_barrier_wait_seconds", kindSummary, "Time in the barrier, per epoch.")
	peerBytesWritten = nodeTable.add("ringlet_peer_bytes_written_total", kindCounter,
		"Bytes that the readout unit has written to the builder unit of a peer.", "peer")
	peerChunksSent = nodeTable.add("ringlet_peer_chunks_sent_total", kindCounter,
		"Chunks sent to a peer, repetitions included.", "peer")
	peerChunksResent = nodeTable.add("ringlet_peer_chunks_resent_total", kindCounter, "Chunks sent to a peer again.",
		"peer")
	peerChunksPlaced = nodeTable.add("ringlet_peer_chunks_placed_total", kindCounter,
		"Chunks of a peer that were put in their place.", "peer")
	peerChunksDuplicate = nodeTable.add("ringlet_peer_chunks_duplicate_total", kindCounter,
		"Chunks of a peer that had been here before.", "peer")
)

// summaries are the histograms of a report with their metrics.
var summaries = []struct {
	histogram string
	of        *Metric
}{
	{"barrier_us", nodeBarrierWait},
	{"decision_us", nodeTable.add("ringlet_dec_decision_latency_seconds", kindSummary,
		"From when an event was known to be triggered to its decision, per event.")},
	{"building_us", nodeTable.add("ringlet_dec_building_latency_seconds", kindSummary,
		"Of that, until the last byte was in the builder unit, with the way of the result.")},
	{"judged_us", nodeTable.add("ringlet_dec_judged_latency_seconds", kindSummary,
		"Of that, from the last byte to the verdict of the builder unit.")},
	{"ordering_us", nodeTable.add("ringlet_dec_ordering_latency_seconds", kindSummary,
		"Of that, from when the result came to the decision.")},
	{"filter_wait_us", nodeTable.add("ringlet_bu_filter_wait_latency_seconds", kindSummary,
		"From the last byte of an event until the filter had it.")},
	{"filter_us", nodeTable.add("ringlet_bu_filter_latency_seconds", kindSummary, "In the filter, per event.")},
	{"host_us", nodeTable.add("ringlet_host_latency_seconds", kindSummary,
		"With debug.stamps: from when the kernel had a packet until it was taken in.")},
}

// NodeMetrics are the metrics of a node with these counters; those of Go and of the kernel are added.
func NodeMetrics(counters counter.List) []Metric {
	return nodeTable.withCounters(counters, counterMetric)
}

// States of the component state machine that are stable.
var stableStates = []string{"Offline", "NotReady", "Ready", "Running", "Paused", "Error"}

// NodeHandler makes the handler for the metrics of the nodes of a process with these counters, from functions that
// return their reports, by name. If there are several, each metric has the label node. notAfter returns the end of the
// process's certificate.
func NodeHandler(counters counter.List,
	notAfter func() time.Time) func(reports map[string]func() *nodev1.Report) http.Handler {
	return func(reports map[string]func() *nodev1.Report) http.Handler {
		r := newRegistry(notAfter)
		for name, report := range reports {
			var named prometheus.Registerer = r
			if len(reports) > 1 {
				named = prometheus.WrapRegistererWith(prometheus.Labels{"node": name}, r)
			}
			named.MustRegister(collector(func(out chan<- prometheus.Metric) { emitNode(out, counters, report()) }))
			r.MustRegister(collector(func(out chan<- prometheus.Metric) {
				now := report()
				nodeInfo.emit(out, 1, now.GetName(), now.GetVersion())
			}))
		}
		return handler(r)
	}
}

func emitNode(out chan<- prometheus.Metric, counters counter.List, r *nodev1.Report) {
	for _, s := range stableStates {
		nodeState.emit(out, boolValue(s == r.GetStatus().GetState()), s)
	}
	nodeInTransition.emit(out, boolValue(r.GetStatus().GetInBetween() != ""))
	nodeDegraded.emit(out, boolValue(r.GetStatus().GetDegraded()))
	nodeRunNumber.emit(out, float64(r.GetRun()))
	m := r.GetMachine()
	nodeProcessors.emit(out, float64(m.GetProcessors()))
	nodeMemoryLimit.emit(out, float64(m.GetMemoryBytes()))
	if m.GetDiskBytes() > 0 {
		nodeDiskSize.emit(out, float64(m.GetDiskBytes()))
		nodeDiskFree.emit(out, float64(m.GetDiskFreeBytes()))
	}
	for i := range counters {
		emitCounter(out, &counters[i], r.GetCounters())
	}
	for _, l := range r.GetLinks() {
		for _, x := range [...]struct {
			of *Metric
			v  uint64
		}{
			{peerBytesWritten, l.GetBytesWritten()}, {peerChunksSent, l.GetChunksSent()}, {peerChunksResent,
				l.GetChunksResent()},
			{peerChunksPlaced, l.GetChunksPlaced()},
			{peerChunksDuplicate, l.GetChunksDuplicate()},
		} {
			x.of.emit(out, float64(x.v), l.GetPeer())
		}
	}
	for _, s := range summaries {
		emitSummary(out, s.of, r.GetHistograms()[s.histogram])
	}
}

// emitCounter sends the value of a counter, if the report has it, or of all kinds of a counter by kind.
func emitCounter(out chan<- prometheus.Metric, c *counter.Counter, report map[string]uint64) {
	m, factor := counterMetric(c), 1.0
	if c.Unit == counter.Micros {
		factor = 1e-6
	}
	if !c.ByKind {
		if v, found := report[c.Name]; found {
			m.emit(out, float64(v)*factor)
		}
		return
	}
	for name, v := range report {
		if kind, ok := strings.CutPrefix(name, c.Name); ok {
			m.emit(out, float64(v)*factor, kind)
		}
	}
}

// emitSummary sends a summary of a histogram in µs.
func emitSummary(out chan<- prometheus.Metric, of *Metric, encoded []byte) {
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
