package main

import (
	"fmt"
	"slices"
	"time"
)

// An action is the beginning or the end of a fault.
type action struct {
	At    time.Duration // after the command start
	Fault fault
	Ends  bool
}

// timeline puts the beginnings and ends of faults in order.
func timeline(faults []fault) []action {
	var out []action
	for _, f := range faults {
		out = append(out, action{At: f.At, Fault: f})
		if f.Duration > 0 {
			out = append(out, action{At: f.At + f.Duration, Fault: f, Ends: true})
		}
	}
	slices.SortStableFunc(out, func(a, b action) int { return int(a.At - b.At) })
	return out
}

// slowQueueRate is the rate in bit/s of the queue in which other packets overtake: a full packet takes 0.6 ms in it.
const slowQueueRate = 20_000_000

// netRules are the rules of the switch during these faults. detour is the traffic class of the test bed's slow queue.
func netRules(now []fault, detour string) []string {
	var out []string
	for _, f := range now {
		host, verdict := f.Node, "drop"
		switch f.Kind {
		case cutControl:
			host = "control"
		case loss:
			verdict = fmt.Sprintf("numgen random mod 100 < %d drop", f.Percent)
		case shrink:
			verdict = "ether type ip ip protocol udp meta length > 1400 drop"
		case reorder:
			verdict = fmt.Sprintf("numgen random mod 100 < %d meta priority set %s", f.Percent, detour)
		}
		from, to := fmt.Sprintf("iifname %q %s", host, verdict), fmt.Sprintf("oifname %q %s", host, verdict)
		switch f.Kind {
		case cutIn:
			out = append(out, to)
		case cutOut:
			out = append(out, from)
		case cutPair:
			out = append(out, fmt.Sprintf("iifname %q oifname %q drop", f.Node, f.UnreachablePeer))
		case cut, cutControl, loss, reorder, shrink:
			out = append(out, from, to)
		}
	}
	return out
}
