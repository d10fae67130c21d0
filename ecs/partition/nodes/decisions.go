package nodes

import (
	"fmt"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/ecs/figures"
	"ringlet/node"
	"ringlet/tagnet/core"
)

// Decisions are the counts of the decision unit.
type Decisions struct {
	Node string `json:"node"`
	// First is more than 0 if its process was replaced during the run: the counts of the one before are lost.
	First               uint64     `json:"first" sum:"dec.first"`
	Decided             uint64     `json:"decided" sum:"dec.decisions_accepted,dec.decisions_rejected,dec.decisions_failed,dec.decisions_timed_out"` // the sum of the next four
	Accepted            uint64     `json:"accepted" sum:"dec.decisions_accepted"`
	Rejected            uint64     `json:"rejected" sum:"dec.decisions_rejected"`
	Failed              uint64     `json:"failed" sum:"dec.decisions_failed"`       // could not be judged
	TimedOut            uint64     `json:"timed_out" sum:"dec.decisions_timed_out"` // by the builder unit, or for the next three reasons
	NoResult            uint64     `json:"no_result" sum:"dec.timed_out"`
	Overrun             uint64     `json:"overrun" sum:"dec.overrun"`
	Unanswered          uint64     `json:"unanswered" sum:"dec.unanswered"`
	NumbersWithoutEvent uint64     `json:"void" sum:"dec.void"` // event numbers without event
	ResultsLate         uint64     `json:"results_late" sum:"dec.results_late"`
	ResultsDoubled      uint64     `json:"results_doubled" sum:"dec.results_doubled"`
	ResultsImpossible   uint64     `json:"results_impossible" sum:"dec.results_ahead,dec.results_old_epoch,dec.results_stranger,dec.results_unmeant,dec.results_broken,dec.results_foreign,dec.results_early"`
	ResultsUnsent       uint64     `json:"results_unsent"` // the decision unit may not have got them
	WaitUs              Quantiles4 `json:"wait_us"`        // from when the event is known to be triggered to its decision
	// The parts of WaitUs, of events with a result that says how long the builder unit took.
	BuildingUs Quantiles4 `json:"building_us"`               // to the event's last byte, and the result's way here
	JudgedUs   Quantiles4 `json:"judged_us"`                 // from the last byte to the result
	OrderingUs Quantiles4 `json:"ordering_us"`               // from the result to the decision
	Unsplit    uint64     `json:"unsplit" sum:"dec.unsplit"` // in JudgedUs alone: too long for a result's field
	NodeLost   bool       `json:"lost,omitempty"`            // its node was lost: these are the last counts that it reported
	// Readout sums the counts of all readout units.
	Readout ReadoutDecisions `json:"readout"`
}

// ReadoutDecisions are the decisions that readout units received, and the parts that they freed for them before the
// scheduler released the MEP.
type ReadoutDecisions struct {
	Received         uint64 `json:"heard" sum:"ru.decisions_accepted,ru.decisions_rejected,ru.decisions_failed,ru.decisions_timed_out"` // decisions, by the readout units
	NotReceived      uint64 `json:"missed" sum:"ru.decisions_missed"`                                                                   // numbers of events whose decision they did not receive
	Confirmed        uint64 `json:"told" sum:"dec.readout_told"`                                                                        // decisions that the decision unit knows to have arrived
	LeftOut          uint64 `json:"left_out" sum:"dec.readout_left_out"`                                                                // decisions that it did not send, since a readout unit was too slow
	Unconfirmed      uint64 `json:"unheard" sum:"dec.readout_unheard"`                                                                  // decisions of which it does not know whether they arrived
	ForEndedReadouts uint64 `json:"ended" sum:"dec.readout_ended"`                                                                      // for readout units that had ended
	MEPsFreed        uint64 `json:"meps_freed" sum:"ru.rejected_meps_freed"`
	MFPsFreed        uint64 `json:"mfps_freed" sum:"ru.rejected_mfps_freed"`
	BytesFreed       uint64 `json:"bytes_freed" sum:"ru.rejected_bytes_freed"`
}

// fillDecisions fills in the decisions, if there is a decision unit.
func (r *reporter) fillDecisions(out *Report, sums map[string]uint64) {
	if r.cfg.DecisionNode == "" {
		return
	}
	d := &Decisions{Node: r.cfg.DecisionNode, NodeLost: r.Presence(r.cfg.DecisionNode).Lost ||
		r.Presence(r.cfg.DecisionNode).ProcessEnded}
	out.Decisions = d
	d.ResultsUnsent = countsOf(sums).ResultsUnsent
	readCounters(&d.Readout, sums, "")
	n, err := r.findMember(d.Node)
	if err != nil {
		d.NodeLost = true
		return
	}
	rep := n.latestReport()
	readCounters(d, rep.GetCounters(), "")
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

// decisionChecks are the checks of decisions: one for each event, and an outcome of each result.
func (r *Report) decisionChecks(b *accountSums, reg *core.Registers, sums counts) []Check {
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
		newCheck("events that wait for a decision", sums.DecisionsPending, 0),
	}
	out = append(out, r.readoutDecisionChecks(b)...)
	if since := d.whyResultsDiffer(b); since != "" {
		r.NotChecked = append(r.NotChecked, "results sent against results read, since "+since)
		return out
	}
	read := sums.ResultsTaken + d.ResultsLate + d.ResultsDoubled + d.ResultsImpossible
	return append(out, newCheck("results sent = results read", sums.ResultsSent, read),
		newCheck("decisions by a result = results taken", d.Decided-d.NoResult-d.Overrun-d.Unanswered+d.NumbersWithoutEvent,
			sums.ResultsTaken))
}

// whyResultsDiffer says why the number of results sent may differ from that of results read; empty: it may not.
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

// readoutDecisionChecks are the checks of the decisions that readout units received. The second one needs LeftOut to be
// 0, since LeftOut counts event numbers without event, too.
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

// decisionsLost says that the process of the decision unit was lost in the run, and its counts with it.
func (r *Report) decisionsLost() bool {
	return r.Decisions != nil && (r.Decisions.NodeLost || r.Decisions.First > 0)
}
