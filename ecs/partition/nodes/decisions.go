package nodes

import (
	"fmt"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/ecs/figures"
	"ringlet/node"
	"ringlet/tagnet"
)

// Decisions are what the decision unit did, as it tells itself.
type Decisions struct {
	Node string `json:"node"`
	// First is more than 0 where its process came back in the run: what the one before decided is lost with it.
	First               uint64     `json:"first"`
	Decided             uint64     `json:"decided"` // the sum of the next four
	Accepted            uint64     `json:"accepted"`
	Rejected            uint64     `json:"rejected"`
	Failed              uint64     `json:"failed"`    // could not be judged
	TimedOut            uint64     `json:"timed_out"` // by the builder unit, or for one of the next three reasons
	NoResult            uint64     `json:"no_result"`
	Overrun             uint64     `json:"overrun"`
	Unanswered          uint64     `json:"unanswered"`
	NumbersWithoutEvent uint64     `json:"void"` // event numbers without event
	ResultsLate         uint64     `json:"results_late"`
	ResultsDoubled      uint64     `json:"results_doubled"`
	ResultsImpossible   uint64     `json:"results_impossible"`
	ResultsUnsent       uint64     `json:"results_unsent"` // by builder units, that the decision unit has not got for certain
	WaitUs              Quantiles4 `json:"wait_us"`        // from when the event is known to be triggered to its decision
	// The parts of WaitUs, of events with a result that says how long the builder unit took.
	BuildingUs Quantiles4 `json:"building_us"`    // to the last byte, with the result's way
	JudgedUs   Quantiles4 `json:"judged_us"`      // from its last byte to the result
	OrderingUs Quantiles4 `json:"ordering_us"`    // from the result to the decision
	Unsplit    uint64     `json:"unsplit"`        // in JudgedUs alone: a result cannot say so long a time
	NodeLost   bool       `json:"lost,omitempty"` // its node was lost: what it told last
	// Readout is what the readout units heard of it, over all of them.
	Readout ReadoutDecisions `json:"readout"`
}

// ReadoutDecisions is what readout units heard of decisions, and what they gave up by them before the scheduler told
// its outcome.
type ReadoutDecisions struct {
	Received         uint64 `json:"heard"`    // decisions, by the readout units
	NotReceived      uint64 `json:"missed"`   // numbers of events whose decision they were not told
	Confirmed        uint64 `json:"told"`     // by the decision unit, of which it knows that they were heard
	LeftOut          uint64 `json:"left_out"` // by it, since a readout unit was too slow
	Unconfirmed      uint64 `json:"unheard"`  // of which it does not know
	ForEndedReadouts uint64 `json:"ended"`    // for readout units that had ended
	MEPsFreed        uint64 `json:"meps_freed"`
	MFPsFreed        uint64 `json:"mfps_freed"`
	BytesFreed       uint64 `json:"bytes_freed"`
}

// impossibleCounters are the counters of results that cannot be.
var impossibleCounters = []string{
	"dec.results_ahead", "dec.results_old_epoch", "dec.results_stranger", "dec.results_unmeant", "dec.results_broken",
	"dec.results_foreign", "dec.results_early",
}

// fillDecisions fills them in.
func (r *Run) fillDecisions(out *Report, sums map[string]uint64) {
	if r.cfg.DecisionNode == "" {
		return
	}
	d := &Decisions{Node: r.cfg.DecisionNode, NodeLost: r.isLost(r.cfg.DecisionNode) ||
		r.isProcessEnded(r.cfg.DecisionNode)}
	out.Decisions = d
	d.ResultsUnsent = sums["bu.results_dropped"] + sums["bu.results_unheard"]
	d.Readout = ReadoutDecisions{
		Received: sums["ru.decisions_accepted"] + sums["ru.decisions_rejected"] + sums["ru.decisions_failed"] +
			sums["ru.decisions_timed_out"],
		NotReceived:      sums["ru.decisions_missed"],
		Confirmed:        sums["dec.readout_told"],
		LeftOut:          sums["dec.readout_left_out"],
		Unconfirmed:      sums["dec.readout_unheard"],
		ForEndedReadouts: sums["dec.readout_ended"],
		MEPsFreed:        sums["ru.rejected_meps_freed"],
		MFPsFreed:        sums["ru.rejected_mfps_freed"],
		BytesFreed:       sums["ru.rejected_bytes_freed"],
	}
	n, err := r.findMember(d.Node)
	if err != nil {
		d.NodeLost = true
		return
	}
	rep := n.latestReport()
	c := rep.GetCounters()
	d.First = c["dec.first"]
	d.Accepted, d.Rejected = c["dec.decisions_accepted"], c["dec.decisions_rejected"]
	d.Failed, d.TimedOut = c["dec.decisions_failed"], c["dec.decisions_timed_out"]
	d.Decided = d.Accepted + d.Rejected + d.Failed + d.TimedOut
	d.NoResult, d.Overrun, d.Unanswered = c["dec.timed_out"], c["dec.overrun"], c["dec.unanswered"]
	d.Unsplit = c["dec.unsplit"]
	d.NumbersWithoutEvent, d.ResultsLate, d.ResultsDoubled = c["dec.void"], c["dec.results_late"], c["dec.results_doubled"]
	for _, name := range impossibleCounters {
		d.ResultsImpossible += c[name]
	}
	for name, to := range map[string]*Quantiles4{
		node.HistogramDecision: &d.WaitUs,
		node.HistogramBuilding: &d.BuildingUs,
		node.HistogramJudged:   &d.JudgedUs,
		node.HistogramOrdering: &d.OrderingUs,
	} {
		if h := figures.Histogram(rep, name); h != nil {
			*to = quantiles4(h)
		}
	}
}

func quantiles4(h *hdr.Histogram) Quantiles4 {
	return Quantiles4{
		P50:  h.ValueAtQuantile(50),
		P99:  h.ValueAtQuantile(99),
		P999: h.ValueAtQuantile(99.9),
		Max:  h.Max(),
	}
}

// resultBytes is the size of a result on the wire.
const resultBytes = 16

// decisionChecks is the check of decisions: one for each event, and of each result what became of it.
func (r *Report) decisionChecks(b *accountSums, reg *tagnet.Registers, sums map[string]uint64) []Check {
	d := r.Decisions
	switch {
	case d == nil:
		return nil
	case d.NodeLost:
		r.NotChecked = append(r.NotChecked,
			fmt.Sprintf("decisions, since %s is lost, and its last figures with it", d.Node))
		return nil
	}
	numbers := reg.GetCounters().GetIssued() * uint64(r.Packing)
	out := []Check{
		newCheck("event numbers triggered = decisions + without event", numbers-min(numbers, d.First),
			d.Decided+d.NumbersWithoutEvent),
		newCheck("events that wait for a decision", sums["dec.pending"], 0),
	}
	out = append(out, r.readoutDecisionChecks(b)...)
	if since := d.whyResultsDiffer(b); since != "" {
		r.NotChecked = append(r.NotChecked, "results sent against results read, since "+since)
		return out
	}
	read := sums["dec.results_taken"] + d.ResultsLate + d.ResultsDoubled + d.ResultsImpossible
	return append(out, newCheck("results sent = results read", sums["bu.results_sent"], read),
		newCheck("decisions by a result = results taken", d.Decided-d.NoResult-d.Overrun-d.Unanswered+d.NumbersWithoutEvent,
			sums["dec.results_taken"]))
}

// whyResultsDiffer says why the results that were sent need not be those that were read; empty: nothing does.
func (d *Decisions) whyResultsDiffer(b *accountSums) string {
	switch {
	case d.First > 0 || len(b.lostBUs) > 0 || len(b.excludedRUs) > 0:
		return "a node was lost meanwhile"
	case d.ResultsUnsent > 0:
		return fmt.Sprintf("%d were not sent: the decision unit on %s did not keep up, or the link to it was down",
			d.ResultsUnsent, d.Node)
	}
	return ""
}

// readoutDecisionChecks is the check of what the readout units heard. What is left out has numbers without event among
// it.
func (r *Report) readoutDecisionChecks(b *accountSums) (out []Check) {
	d := r.Decisions
	h := &d.Readout
	if d.First > 0 || len(b.lostBUs) > 0 || len(b.excludedRUs) > 0 || h.Unconfirmed > 0 {
		r.NotChecked = append(r.NotChecked,
			"decisions told to readout units against those that they heard, since a node was lost or stood still")
		return nil
	}
	out = append(out, newCheck("decisions told to readout units = heard", h.Confirmed, h.Received))
	if h.LeftOut == 0 {
		out = append(out, newCheck("decisions, for each readout unit = told + made behind its end", d.Decided*uint64(r.RUs),
			h.Confirmed+h.ForEndedReadouts))
	}
	return out
}

// decisionsLost says that the process of the decision unit was lost: the others counted what they sent it, and what it
// counted is lost.
func (r *Report) decisionsLost() bool {
	return r.Decisions != nil && (r.Decisions.NodeLost || r.Decisions.First > 0)
}
