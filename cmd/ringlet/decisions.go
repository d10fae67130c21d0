package main

import (
	"fmt"
	"strings"

	"ringlet/ecs/partition/nodes"
	"ringlet/filter/decision"
)

// decisionRows prints the counts of the decision unit, if there was one.
func decisionRows(row printRow, d *nodes.Decisions) {
	if d == nil {
		return
	}
	since := ""
	switch {
	case d.NodeLost:
		since = "; THE NODE WAS LOST, these are its last counts"
	case d.First > 0:
		since = fmt.Sprintf("; its process came back, and began with event %d", d.First)
	}
	row("decisions", "%d by %s = %d accepted + %d rejected + %d failed + %d timed out%s", d.Decided, d.Node, d.Accepted,
		d.Rejected, d.Failed, d.TimedOut, since)
	if d.NoResult+d.Overrun+d.Unanswered > 0 {
		row("without result", "%d after the time-out, %d since later ones needed their place, %d at the end", d.NoResult,
			d.Overrun, d.Unanswered)
	}
	if d.ResultsLate+d.ResultsDoubled+d.ResultsImpossible+d.ResultsUnsent > 0 {
		row("results", "%d late, %d doubled, %d impossible; %d did not leave their builder unit, or are unaccounted for",
			d.ResultsLate, d.ResultsDoubled, d.ResultsImpossible, d.ResultsUnsent)
	}
	decisionDeliveryRows(row, &d.Readout)
	row("decision after", "p50 %s, p99 %s, p99.9 %s, max %s", micros(d.WaitUs.P50), micros(d.WaitUs.P99),
		micros(d.WaitUs.P999), micros(d.WaitUs.Max))
	quantiles := func(q nodes.Quantiles4) string { return micros(q.P50) + ", " + micros(q.P99) }
	with := d.Decided - d.NoResult - d.Overrun - d.Unanswered
	building, judging, ordering := quantiles(d.BuildingUs), quantiles(d.JudgedUs), quantiles(d.OrderingUs)
	if with == d.Unsplit {
		building, ordering = "unknown", "unknown"
	}
	if d.JudgedUs.P99 >= decision.MaxTookMicros {
		judging += " or more"
	}
	if with > 0 {
		row("of that", "of %d with a result, p50 and p99: building %s; judging %s; ordering %s", with, building, judging,
			ordering)
	}
	if d.Unsplit > 0 {
		row("unknown", "building and ordering of %d of them: the builder unit took %s or more", d.Unsplit,
			micros(decision.MaxTookMicros))
	}
}

// hostRow prints how long packets waited in hosts, if they have the kernel's time stamps.
func hostRow(row printRow, h *nodes.HostTimes) {
	if h == nil {
		return
	}
	var all []string
	for _, one := range []struct {
		of string
		q  *nodes.Quantiles4
	}{{"readout units", h.ReadoutUs}, {"builder units", h.BuilderUs}, {"the decision unit", h.DecisionUs}} {
		if one.q != nil {
			all = append(all, fmt.Sprintf("at %s %s, %s", one.of, micros(one.q.P50), micros(one.q.P99)))
		}
	}
	row("in the hosts", "packets, from the kernel until taken in, p50 and p99: %s", strings.Join(all, "; "))
}

// decisionDeliveryRows prints the decisions that did not reach readout units, and the parts freed early, if there were
// any.
func decisionDeliveryRows(row printRow, h *nodes.ReadoutDecisions) {
	if h.LeftOut+h.Unconfirmed > 0 {
		row("told to RUs", "%d decisions, %d were left out for slow readout units, of %d the arrival is not known",
			h.Confirmed, h.LeftOut, h.Unconfirmed)
	}
	if h.MEPsFreed > 0 {
		row("freed early", "%d times the part of a rejected MEP, %d MFPs of %d bytes, before its outcome was told",
			h.MEPsFreed, h.MFPsFreed, h.BytesFreed)
	}
}
