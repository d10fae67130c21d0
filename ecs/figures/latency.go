package figures

import (
	"math"
	"strings"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/node"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// latencyHistograms are the histograms of the time from trigger to decision: the whole, its stages, and parts of
// stages.
var latencyHistograms = []string{
	node.HistogramDecision, node.HistogramBuilding, node.HistogramJudged, node.HistogramOrdering,
	node.HistogramFilterWait, node.HistogramFilter, node.HistogramKernelDelay,
}

// latencyStages are the stages for which the reports have a histogram.
func latencyStages(reports []*nodev1.Report) (stages []*ecsv1.LatencyPart) {
	for _, name := range latencyHistograms {
		if l := summarizeLatency(MergeHistograms(reports, name)); l != nil {
			stages = append(stages, &ecsv1.LatencyPart{Name: strings.TrimSuffix(name, "_us"), Latency: l})
		}
	}
	return stages
}

// barsPerOctave is the number of bars for a factor of two in time: each is about a fifth longer than the one before.
const barsPerOctave = 4

// summarizeLatency makes quantiles, and bars of equal width on a logarithmic scale; nil if the histogram is empty.
func summarizeLatency(h *hdr.Histogram) *ecsv1.Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	out := &ecsv1.Latency{
		P50Us:  h.ValueAtQuantile(50),
		P99Us:  h.ValueAtQuantile(99),
		P999Us: h.ValueAtQuantile(99.9),
		MaxUs:  h.Max(),
	}
	last := -1
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		n := int(math.Floor(math.Log2(float64(max(1, bar.From))) * barsPerOctave))
		if n != last {
			out.Bars, last = append(out.Bars, &ecsv1.Bar{FromUs: barEdge(n), ToUs: barEdge(n + 1)}), n
		}
		out.Bars[len(out.Bars)-1].Count += uint64(bar.Count)
	}
	return out
}

// barEdge is the lower edge of bar n, in µs.
func barEdge(n int) int64 { return int64(math.Ceil(math.Exp2(float64(n) / barsPerOctave))) }
