package nodes

import (
	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/ecs/figures"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// BarrierHolder is a readout unit that was the last to enter the barrier in some epochs.
type BarrierHolder struct {
	RU     int        `json:"ru"`
	Node   string     `json:"node"`
	Epochs int64      `json:"epochs"` // epochs in which it entered last
	ByUs   Quantiles3 `json:"by_us"`  // how long after the last but one it entered, µs
}

// TimelineStep is one transfer of a readout unit, or a phase in which it had nothing to send, with its times.
type TimelineStep struct {
	RU    int    `json:"ru"`
	Epoch uint64 `json:"epoch"` // number of the phase; 0 where there are no phases
	BU    int    `json:"bu"`    // -1: nothing was sent
	MEP   uint64 `json:"mep"`   // the first MEP of the transfer
	MEPs  uint32 `json:"meps"`  // MEPs whose parts went together

	// µs from the run's start by the control's clock to the step by the node's clock, or stepNotSeen.
	BeginUs    int64 `json:"begin_us"`    // the write was given to the network
	SentUs     int64 `json:"sent_us"`     // the write had its outcome
	ReleasedUs int64 `json:"released_us"` // the readout unit left the phase
}

// stepNotSeen is the time of something that did not happen in the step.
const stepNotSeen = -1

// fillPhases fills in the phase skew, the barrier holders and the timeline.
func (r *reporter) fillPhases(out *Report) {
	out.BarrierHolders = []BarrierHolder{}
	var reports []*nodev1.Report
	for _, n := range r.nodes {
		rep := n.latestReport()
		if h := figures.Histogram(rep, node.HistogramSkew); h != nil {
			out.PhaseSkewUs = quantiles(h)
		}
		reports = append(reports, rep)
		for _, s := range rep.GetTimeline() {
			out.Timeline = append(out.Timeline, r.timelineStep(n, s))
		}
	}
	for _, h := range figures.BarrierHolders(reports) {
		out.BarrierHolders = append(out.BarrierHolders, BarrierHolder{
			RU:     h.RU,
			Node:   r.readoutNode(h.RU),
			Epochs: h.LateUs.TotalCount(),
			ByUs:   quantiles(h.LateUs),
		})
	}
}

func (r *reporter) timelineStep(n *member, s *nodev1.Step) TimelineStep {
	start := r.now.Begun.UnixMicro()
	since := func(us int64) int64 {
		if us == 0 {
			return stepNotSeen
		}
		return us - start
	}
	return TimelineStep{
		RU:         int(n.firstEntry.GetRuIndex()),
		Epoch:      s.GetPhase(),
		BU:         int(s.GetBuilder()),
		MEP:        s.GetMep(),
		MEPs:       s.GetMeps(),
		BeginUs:    since(s.GetBeginUs()),
		SentUs:     since(s.GetSentUs()),
		ReleasedUs: since(s.GetReleasedUs()),
	}
}

// readoutNode is the name of the node with a readout unit.
func (r *reporter) readoutNode(ru int) string {
	for _, n := range r.nodes {
		if n.firstEntry.GetReadout() && int(n.firstEntry.GetRuIndex()) == ru {
			return n.name
		}
	}
	return ""
}

func quantiles(h *hdr.Histogram) Quantiles3 {
	return Quantiles3{h.ValueAtQuantile(50), h.ValueAtQuantile(99), h.Max()}
}
