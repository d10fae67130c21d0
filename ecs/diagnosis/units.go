package diagnosis

import (
	"time"
)

// readoutRules are the rules about readout units.
func readoutRules() []Rule {
	return []Rule{
		{
			ID:       "slow-source",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findSlowSources,
			When: "A readout unit waits for its source most of the time, and the source gives less than four fifths of the " +
				"rate that the sources of the others can give.",
			Advice: "Check what feeds this readout unit: the card and its link, the disk or the file system of its input, " +
				"what else runs on its host; " +
				"all others wait for it.",
		},
		{
			ID:       "holds-phases",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findPhaseHolders,
			When: "One readout unit enters the barrier last in far more than its share of phases, by a twentieth of a " +
				"phase or more, and the others wait there for a twentieth of their time or more.",
			Advice: "Compare it with the others: its share of the data, its processor, its port; if its source is slow, " +
				"slow-source says so too.",
		},
		{
			ID:       "phases-overrun",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findOverruns,
			When:     "More than 1 % of a readout unit's phases take longer than `phase-end` allows (such as 20ms).",
			Advice:   "Give phase-end a longer time, or look for what makes this unit slow.",
		},
	}
}

// findSlowSources compares the rates of sources in the time in which readout units wait for them: a fast source is read
// seldom, since its readout unit waits for room.
func findSlowSources(v *view) (out findings) {
	units := v.readouts()
	gives := make([]float64, len(units)) // MEPs per second of waiting for the source
	for i := range units {
		if t := units[i].increase("ru.source_us") / 1e6; t > 0 {
			gives[i] = units[i].increase("ru.meps_read") / t
		}
	}
	for i := range units {
		var others []float64
		for j := range units {
			if j != i && units[j].increase("ru.meps_read") > 0 {
				others = append(others, gives[j])
			}
		}
		name := units[i].ruName()
		switch rate := median(others); {
		case !v.isRunning() || len(others) == 0 || units[i].timeShare("ru.source_us") < 0.5 || gives[i] >= 0.8*rate:
		case gives[i] == 0:
			out.add(name, "%s holds phases: its source gives nothing", name)
		default:
			out.add(name, "%s holds phases: its source gives %s of the rate that those of the others can, %.0f MEPs a second, "+
				"and takes %s of its time",
				name, percent(gives[i]/rate), gives[i], percent(min(1, units[i].timeShare("ru.source_us"))))
		}
	}
	return out
}

// minPhases is the least number of phases, in the baseline window, of which a share is meaningful.
const minPhases = 50

func findPhaseHolders(v *view) (out findings) {
	was := map[uint32]uint64{}
	for _, h := range v.base.GetHolders() {
		was[h.GetRu()] = h.GetEpochs()
	}
	all, phases, rus := 0.0, 0.0, 0
	for _, h := range v.now.GetHolders() {
		all += increase(h.GetEpochs(), was[h.GetRu()])
	}
	for _, m := range v.readouts() {
		rus++
		phases = max(phases, m.increase("ru.phases"))
	}
	if !v.isRunning() || rus < 2 || all < minPhases || phases == 0 {
		return nil
	}
	const matters = 1. / 20
	phase := v.span().Seconds() * 1e6 / phases // µs
	for _, h := range v.now.GetHolders() {
		share := increase(h.GetEpochs(), was[h.GetRu()]) / all
		if share > 0.5+0.5/float64(rus) && float64(h.GetByUsP50()) > matters*phase &&
			v.othersBarrierShare(h.GetRu()) > matters {
			name := v.readoutName(h.GetRu())
			out.add(name, "%s is the last in %s of the phases, by %d µs in the middle and %d µs at the 99th percentile, of "+
				"phases of %.0f µs",
				name, percent(share), h.GetByUsP50(), h.GetByUsP99(), phase)
		}
	}
	return out
}

// othersBarrierShare is the median share of time that the other readout units wait in the barrier. With slack it may be
// 0 though one readout unit is always the last.
func (v *view) othersBarrierShare(ru uint32) float64 {
	var others []float64
	for _, m := range v.readouts() {
		if m.GetRuIndex() != ru {
			others = append(others, m.timeShare("ru.barrier_us"))
		}
	}
	return median(others)
}

func findOverruns(v *view) (out findings) {
	for _, m := range v.readouts() {
		over, phases := m.increase("ru.overruns"), m.increase("ru.phases")
		if v.isRunning() && phases > 0 && over/phases > 0.01 {
			out.add(m.ruName(), "%s of the phases of %s take too long", percent(over/phases), m.ruName())
		}
	}
	return out
}

// builderRules are the rules about builder units.
func builderRules() []Rule {
	return []Rule{
		{
			ID:       "slow-output",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findSlowOutputs,
			When:     "The output of a builder unit takes more than four fifths of its time.",
			Advice: "Look at the disk it writes to, or at the program that reads its buffer; if discarding is better than " +
				"waiting, set `overload: discard`.",
		},
		{
			ID:       "slow-builder",
			Severity: severityWarning,
			Hold:     3 * time.Second,
			find:     findSlowBuilders,
			When: "A builder unit holds at least twice as many MEPs as the others and the scheduler waits; or it holds as " +
				"many, and builds less than half as fast.",
			Advice: "Look at its output (slow-output says so), its processor and the way to it; exclude it if it cannot be " +
				"mended while the run goes on.",
		},
		{
			ID:       "suspended",
			Severity: severityInfo,
			Hold:     time.Second,
			find:     findSuspendedBuilders,
			When:     "A builder unit is suspended on purpose (`debug.suspend-bus`).",
			Advice:   "That is a test: take the setting out of the configuration for a real run.",
		},
	}
}

func findSlowOutputs(v *view) (out findings) {
	for _, m := range v.builders() {
		if share := m.timeShare("bu.sink_us"); v.isRunning() && share > 0.8 {
			out.add(m.buName(), "the output of %s takes %s of its time, for %s a second", m.buName(),
				percent(min(1, share)), formatBytes(m.increase("bu.bytes_built")/m.seconds))
		}
	}
	return out
}

// findSlowBuilders finds a builder unit that holds the others up: it still holds MEPs when the others have none left
// and the scheduler waits. If the scheduler leaves places of cycles empty instead, the others build more than it.
func findSlowBuilders(v *view) (out findings) {
	rates := map[uint32]float64{} // MEPs a second
	for _, m := range v.builders() {
		rates[m.GetBuIndex()] = m.increase("bu.meps_built") / m.seconds
	}
	waits := v.now.GetScheduler().GetWaitingFor()
	slots := v.now.GetScheduler().GetSlots()
	for i, u := range slots {
		if !v.isRunning() || u.GetExcluded() || u.GetUsed() < min(2, u.GetSlots()) || u.GetUsed() == 0 {
			continue
		}
		var others, theirs []float64
		for j, o := range slots {
			if j != i && !o.GetExcluded() {
				others = append(others, float64(o.GetUsed()))
				if rate, found := rates[o.GetBu()]; found {
					theirs = append(theirs, rate)
				}
			}
		}
		name, held := v.builderName(u.GetBu()), median(others)
		builtRate, found := rates[u.GetBu()]
		switch {
		case len(others) == 0:
		case held <= float64(u.GetUsed())/2 && (waits == "slots" || waits == "look_ahead"):
			out.add(name, "%s holds %d MEPs in its %d slots, and the others %.3g; the scheduler waits for %s",
				name, u.GetUsed(), u.GetSlots(), held, waits)
		case found && builtRate < median(theirs)/2 && float64(u.GetUsed()) >= held:
			out.add(name, "%s holds %d MEPs in its %d slots, and builds %.0f a second where the others build %.0f",
				name, u.GetUsed(), u.GetSlots(), builtRate, median(theirs))
		}
	}
	return out
}

func findSuspendedBuilders(v *view) (out findings) {
	for _, m := range v.builders() {
		if m.increase("bu.suspensions") > 0 || m.increase("bu.suspended_us") > 0 {
			out.add(m.buName(), "%s has been suspended on purpose %d times", m.buName(), m.GetCounters()["bu.suspensions"])
		}
	}
	return out
}
