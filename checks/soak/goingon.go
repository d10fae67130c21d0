package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Of the plan's runs some must go on: their policies bear all their faults. Such a run ends when it is told to, after
// all that was struck is back, and nothing is missing but fragments of the struck.

// goingOnPercent of the runs with faults must go on.
const goingOnPercent = 60

// goOn draws the losses that the policies bear, a spare, and faults that they bear.
func (d *dice) goOn(r *plannedRun, env env) {
	r.MustGoOn = true
	add := func(name string, value any) { r.Settings = append(r.Settings, fmt.Sprintf("%s=%v", name, value)) }
	lose := func(setting string, units int) (lost int) {
		lost = min(1+d.IntN(2), units-1)
		policy := fmt.Sprintf("at-least %d of %d", units-lost, units)
		if lost == units-1 && d.chance(50) {
			policy = "expendable"
		}
		add(setting, policy)
		return lost
	}
	r.Policy.ReadoutsLost = lose("readout-loss", r.Layout.rus)
	r.Policy.BuildersLost = lose("builder-loss", r.Layout.bus)
	if r.Layout.nodes < nodeCount && r.Place == sharedFiles && d.chance(70) {
		add("spares", "auto")
	}
	span, most := 5*time.Second, 4
	if env.Short {
		span, most = 1500*time.Millisecond, 2
	}
	most = 1 + d.IntN(most)
	choices := d.possibleKinds(env, r.Layout)
	for range 8 * most { // most draws are of faults that are borne
		f := d.fault(choices[d.IntN(len(choices))], r.Layout, span)
		with := *r
		with.Faults = append(slices.Clone(r.Faults), f)
		// Disks of this place are not small; a spare on another host writes to other files, which the record lacks.
		possible := f.Kind != diskFull && (f.Kind != move || r.Place == sharedFiles)
		if possible && with.tolerates() {
			r.Faults = with.Faults
		}
		if len(r.Faults) == most {
			break
		}
	}
	for _, f := range r.Faults {
		r.Length = max(r.Length, f.At+f.Duration)
	}
	r.Length += d.between(300*time.Millisecond, 2*time.Second)
}

// tolerates says whether the run must go on whatever its faults do: its policies tolerate that all the struck are lost
// at the same time, another node can take over the scheduler if that is needed, and who was struck cannot be taken for
// another one.
func (r plannedRun) tolerates() bool {
	for _, f := range r.Faults {
		switch struck := f.struck(); {
		case f.mustBeTolerated():
		case len(struck) == 0: // a control that is away for long; a broken way; everybody
			return false
		case f.Kind != exclude && slices.Contains(struck, r.Layout.scheduler) && !r.Policy.Succession:
			return false
		}
	}
	rus, bus := r.struckUnits()
	return len(rus) <= r.Policy.ReadoutsLost && len(bus) <= r.Policy.BuildersLost
}

// struck are the members whose units a fault may have lost to the run; none if it hits no single member.
func (f fault) struck() []string {
	verb, _, _ := strings.Cut(string(f.Kind), " ")
	switch {
	case f.Node == "" || f.Kind == killSpare:
		return nil
	case verb == "kill", verb == "stop", verb == "term", f.Kind == exclude, f.Kind == move, f.Kind == cut,
		f.Kind == diskFull:
		return slices.DeleteFunc([]string{f.Node, f.Second}, func(n string) bool { return n == "" })
	}
	return nil
}

// struckUnits are the nodes whose readout units, and those whose builder units, the faults may have lost to the run.
func (r plannedRun) struckUnits() (rus, bus []string) {
	note := func(into *[]string, have []string, node string) {
		if slices.Contains(have, node) && !slices.Contains(*into, node) {
			*into = append(*into, node)
		}
	}
	for _, f := range r.Faults {
		if f.mustBeTolerated() {
			continue
		}
		for _, node := range f.struck() {
			note(&bus, r.Layout.builders(), node)
			if f.Kind != exclude {
				note(&rus, r.Layout.readouts(), node)
			}
		}
	}
	return rus, bus
}

// excluded are the nodes whose builder units a person excludes: the control may refuse to include them again.
func (r plannedRun) excluded() (out []string) {
	for _, f := range r.Faults {
		if f.Kind == exclude {
			out = append(out, f.Node)
		}
	}
	return out
}

// judgeGoingOn checks the outcome of a run that must go on.
func judgeGoingOn(r plannedRun, t *trial) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if t.NotBack != "" {
		add("%s", t.NotBack)
	}
	if len(t.Runs) != 1 {
		add("its policies bear its faults, and there are %d runs", len(t.Runs))
	}
	rus, bus := r.struckUnits()
	inMemory := r.Policy.Durability == "memory" && len(bus) > 0
	for _, run := range t.Runs {
		wrong := func(format string, args ...any) {
			add("run %d: "+format, append([]any{run.GetNumber()}, args...)...)
		}
		if run.GetEnd() != "stopped" {
			wrong("its policies bear its faults, and it did not go on: %s: %s", verdict(run), endReason(run))
			continue
		}
		switch v := run.GetVerdict(); {
		case v == ecsv1.Verdict_VERDICT_GOOD, v == ecsv1.Verdict_VERDICT_DEGRADED:
		case v != ecsv1.Verdict_VERDICT_INCOMPLETE || !inMemory: // what a killed process had in memory is lost
			wrong("%s, for faults that its policies bear: %s: %s", verdict(run), run.GetVerdictWhy(), endReason(run))
		}
		if !claimsBalance(run) && !inMemory {
			wrong("its accounts do not balance: %s", endReason(run))
		}
		reported, err := parseFigures(run)
		if err != nil {
			continue // judgeRecord reports the error
		}
		for _, l := range reported.Lacking {
			if !slices.Contains(rus, l.Node) {
				wrong("fragments of %s are missing, which nothing struck", l.Node)
			}
			if n := len(l.Outages); n > 0 && l.Outages[n-1].ReturnMEP == nil && t.NotBack == "" {
				wrong("%s was back, and its report does not say from which MEP on events are whole", l.Node)
			}
		}
		found, gone := reported.Recorded.Events, reported.Discarded+reported.Rejected
		// A lost builder unit may have written a MEP that others were to build again, and discarded.
		kept := uint64(0)
		if sum := found + gone; len(bus) > 0 && sum > reported.Triggered {
			kept = min(sum-reported.Triggered, gone)
		}
		if !inMemory && found+gone-kept != reported.Triggered {
			wrong("%d events were triggered, and %d are in the output, %d were discarded or rejected", reported.Triggered,
				found, gone)
		}
	}
	return problems
}
