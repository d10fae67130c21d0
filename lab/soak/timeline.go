package main

import (
	"fmt"
	"slices"
	"time"
)

// An Action is a fault that begins, or is over.
type Action struct {
	At   time.Duration // after the start was asked for
	What Fault
	Over bool
}

// Timeline puts the beginnings and ends of faults in order.
func Timeline(faults []Fault) []Action {
	var out []Action
	for _, f := range faults {
		out = append(out, Action{At: f.At, What: f})
		if f.For > 0 {
			out = append(out, Action{At: f.At + f.For, What: f, Over: true})
		}
	}
	slices.SortStableFunc(out, func(a, b Action) int { return int(a.At - b.At) })
	return out
}

// slowQueue is the rate of the queue in which packets are overtaken: a full one spends 0.6 ms there.
const slowQueue = 20_000_000

// NetRules are the rules of the switch while these faults last. The class of the slow queue is the test bed's.
func NetRules(now []Fault, detour string) []string {
	var out []string
	for _, f := range now {
		host, verdict := f.Node, "drop"
		switch f.Kind {
		case CutControl:
			host = "control"
		case Loss:
			verdict = fmt.Sprintf("numgen random mod 100 < %d drop", f.Percent)
		case Shrink:
			verdict = "ether type ip ip protocol udp meta length > 1400 drop"
		case Reorder:
			verdict = fmt.Sprintf("numgen random mod 100 < %d meta priority set %s", f.Percent, detour)
		}
		from, to := fmt.Sprintf("iifname %q %s", host, verdict), fmt.Sprintf("oifname %q %s", host, verdict)
		switch f.Kind {
		case CutIn:
			out = append(out, to)
		case CutOut:
			out = append(out, from)
		case CutPair:
			out = append(out, fmt.Sprintf("iifname %q oifname %q drop", f.Node, f.Other))
		case Cut, CutControl, Loss, Reorder, Shrink:
			out = append(out, from, to)
		}
	}
	return out
}
