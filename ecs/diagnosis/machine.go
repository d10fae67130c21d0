package diagnosis

import (
	"fmt"
	"time"
)

// machineRules are the rules about hosts.
func machineRules() []Rule {
	return []Rule{
		{
			ID:       "clock-offset",
			Severity: severityWarning,
			Hold:     3 * time.Second,
			find:     findClockOffsets,
			When: "A node's clock is off by more than 100 ms; or, where phases end by time (`phase-end: 20ms`), " +
				"by more than half a phase.",
			Advice: "Let NTP or PTP keep the clocks of all hosts; without that, logs and timelines cannot be compared, and " +
				"phases by time collide.",
		},
		{
			ID:       "memory-short",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findLowMemory,
			When:     "A node has more than nine tenths of the memory that it may use.",
			Advice:   "Fewer or smaller slots, or a larger limit for the process; beyond it the kernel ends the node.",
		},
		{
			ID:       "disk-nearly-full",
			Severity: severityWarning,
			find:     findFullDisks,
			When:     "Less than 5 % is free where a builder unit writes.",
			Advice:   "Make room, or let the output go elsewhere: a full disk ends the run.",
		},
		{
			ID:       "processors-busy",
			Severity: severityInfo,
			Hold:     5 * time.Second,
			find:     findBusyNodes,
			When:     "A node uses more than 95 % of the processors it may use.",
			Advice:   "Its processors set the pace: give it more, or move other load away from its host.",
		},
	}
}

// maxClockOffset is how far a clock may be off if phases do not end by time: only people compare times then.
const maxClockOffset = 100 * time.Millisecond

func findClockOffsets(v *view) (out findings) {
	most, what := maxClockOffset, ""
	if w := v.settings.PhaseTime; w > 0 {
		most, what = w/2, fmt.Sprintf(", and a phase is %v", w)
	}
	for _, n := range v.now.GetNodes() {
		off := time.Duration(n.GetClockOffsetUs()) * time.Microsecond
		if n.GetSilent() || off.Abs() <= most {
			continue
		}
		relation := "ahead of"
		if off < 0 {
			relation = "behind"
		}
		out.add(n.GetName(), "the clock of %s is %v %s the control's%s", n.GetName(), off.Abs(), relation, what)
	}
	return out
}

func findLowMemory(v *view) (out findings) {
	for _, n := range v.now.GetNodes() {
		if has, may := float64(n.GetRssBytes()), float64(n.GetMemoryBytes()); may > 0 && has > 0.9*may {
			out.add(n.GetName(), "%s has %s of the %s of memory that it may use", n.GetName(),
				formatBytes(has), formatBytes(may))
		}
	}
	return out
}

func findFullDisks(v *view) (out findings) {
	for _, n := range v.now.GetNodes() {
		if free, all := float64(n.GetDiskFreeBytes()), float64(n.GetDiskBytes()); all > 0 && free < 0.05*all {
			name := unitName("builder unit", n.GetBuIndex(), n.GetName())
			out.add(name, "where %s writes, %s of %s are free", name, formatBytes(free), formatBytes(all))
		}
	}
	return out
}

func findBusyNodes(v *view) (out findings) {
	for _, n := range v.now.GetNodes() {
		if p := float64(n.GetProcessors()); v.isRunning() && p > 0 && n.GetCpus() > 0.95*p {
			out.add(n.GetName(), "%s uses %.2f of %.0f processors", n.GetName(), n.GetCpus(), p)
		}
	}
	return out
}
