package diagnosis

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/plural"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// componentRules are the rules about the state of components.
func componentRules() []Rule {
	return []Rule{
		{
			ID:       "in-error",
			Severity: severityError,
			find:     findErrors,
			advise:   (*view).advice,
			When:     "A component is in Error.",
			Advice: "Mend what the cause names, then give recover; the record of the run has the first fault and its " +
				"evidence.",
		},
		{
			ID:       "node-silent",
			Severity: severityError,
			Hold:     time.Second,
			find:     findSilentNodes,
			When:     "A node has not reported for 3 s.",
			Advice:   "Look whether its process and its host live and can be reached from the control.",
		},
		{
			ID:       "degraded",
			Severity: severityWarning,
			find:     findDegraded,
			advise:   adviseDegraded,
			When:     "A component goes on with less than it should have.",
			Advice:   "Mend what the cause names; a run that goes on meanwhile will be DEGRADED.",
		},
		{
			ID:       "left-out",
			Severity: severityInfo,
			find:     findExcludedComponents,
			When:     "A component is excluded.",
			Advice:   "Include it when it is well again; until then the others do its work.",
		},
		{
			ID:       "version-skew",
			Severity: severityWarning,
			find:     findVersionMismatches,
			When:     "A node runs another version than the control.",
			Advice:   "Run the same release everywhere: restart the node with the control's version between two runs.",
		},
	}
}

// eventRules are the rules about the outcomes of events.
func eventRules() []Rule {
	return []Rule{
		{
			ID:       "events-marked",
			Severity: severityWarning,
			find:     findMarkedEvents,
			When:     "Events of this run were built without the fragments of a readout unit that was gone (`readout-loss`).",
			Advice: "Readers of the output find them marked as missing, event by event; start the readout unit's process " +
				"again: it takes part in the same run.",
		},
		{
			ID:       "events-discarded",
			Severity: severityWarning,
			Hold:     time.Second,
			find:     findDiscardedEvents,
			When:     "Builder units discard events, since their outputs have no time for them (`overload: discard`).",
			Advice:   "slow-output names the builder units; make the outputs faster, add builder units, or lower the rate.",
		},
		{
			ID:       "bad-input",
			Severity: severityWarning,
			find:     findBadInputs,
			When:     "The input of a readout unit has ended with a bad record.",
			Advice:   "What came before it is built; look at the record that the status names, or set `on-bad-record: skip`.",
		},
	}
}

// walkComponents calls each with every component of the tree; name has the component above it, in brackets. If each
// returns true, it leaves out the components below: they share the fault.
func walkComponents(c *ecsv1.Component, above string, each func(c *ecsv1.Component, name string) bool) {
	if c == nil {
		return
	}
	name := c.GetName()
	if above != "" && c.GetKind() != "node" && c.GetKind() != "tagnet" {
		name += " (" + above + ")"
	}
	if each(c, name) && c.GetKind() != "partition" {
		return
	}
	for _, child := range c.GetChildren() {
		within := c.GetName()
		if c.GetKind() == "partition" {
			within = ""
		}
		walkComponents(child, within, each)
	}
}

// causeSuffix is the end of a sentence with the cause of a component's state; empty if there is none.
func causeSuffix(c *ecsv1.Component) string {
	if w := c.GetCause().GetWhat(); w != "" {
		return ": " + w
	}
	return ""
}

// rootCause is the fault of the partition, with the components that are part of it: they need no alarms of their own.
type rootCause struct {
	cause     *ecsv1.Cause    // of the partition's Error; nil: there is none, or it names no component
	involved  map[string]bool // the components that it names, and those that followed
	goneNodes map[string]bool // nodes whose end is known
	lostNodes map[string]bool // those of goneNodes that a run goes on without
}

func (v *view) rootCause() rootCause {
	s := rootCause{involved: map[string]bool{}, goneNodes: map[string]bool{}, lostNodes: map[string]bool{}}
	if c := v.tree.GetCause(); v.tree.GetInError() && c.GetComponent() != "" && c.GetComponent() != v.tree.GetName() {
		s.cause = c
		for _, name := range append(strings.Split(c.GetComponent(), ", "), c.GetFollowed()...) {
			s.involved[name] = true
		}
	}
	for _, n := range v.tree.GetChildren() {
		switch n.GetCause().GetCode() {
		case "lost":
			s.lostNodes[n.GetName()] = v.now.GetRun() != 0 && !v.tree.GetInError()
			fallthrough
		case "gone":
			s.goneNodes[n.GetName()] = true
		}
	}
	return s
}

// explains says that the root cause already covers a component, or the component that its cause names.
func (s *rootCause) explains(c *ecsv1.Component) bool {
	return s.involved[c.GetName()] || s.lostNodes[c.GetName()] || s.lostNodes[c.GetCause().GetComponent()] ||
		s.involved[c.GetCause().GetComponent()]
}

// advice is the advice of the cause of a component; empty if it has none.
func (v *view) advice(component string) string {
	s := v.rootCause()
	if c := s.cause; c.GetComponent() == component && c.GetAdvice() != "" {
		return c.GetAdvice() + " Then give recover."
	}
	for _, n := range v.tree.GetChildren() {
		if n.GetName() == component {
			return n.GetCause().GetAdvice()
		}
	}
	return ""
}

// causeSentence is a cause in words, with the nodes that followed.
func causeSentence(c *ecsv1.Cause) string {
	f := fault.Fault{Component: c.GetComponent(), What: c.GetWhat(), Followed: c.GetFollowed()}
	return f.Sentence()
}

func findErrors(v *view) (out findings) {
	s := v.rootCause()
	if c := s.cause; c != nil {
		out.add(c.GetComponent(), "%s", causeSentence(c))
	}
	walkComponents(v.tree, "", func(c *ecsv1.Component, name string) bool {
		explained := s.explains(c) || s.cause != nil && c.GetKind() == "partition"
		if c.GetInError() && !explained {
			out.add(name, "%s is in Error%s", name, causeSuffix(c))
		}
		return c.GetInError()
	})
	return out
}

func findDegraded(v *view) (out findings) {
	s := v.rootCause()
	walkComponents(v.tree, "", func(c *ecsv1.Component, name string) bool {
		switch {
		case s.lostNodes[c.GetName()]:
			out.add(name, "the run goes on without %s%s", name, causeSuffix(c))
		case c.GetDegraded() && !c.GetInError() && !s.explains(c):
			out.add(name, "%s is degraded%s", name, causeSuffix(c))
		}
		return c.GetDegraded() || s.lostNodes[c.GetName()]
	})
	return out
}

// adviseDegraded returns the advice that a degraded component itself gives. If it gives none, and no run goes on, it
// returns another one, since the advice of the rule speaks of a run that goes on; "" means the advice of the rule.
func adviseDegraded(v *view, component string) string {
	if advice := v.advice(component); advice != "" || v.now.GetRun() != 0 {
		return advice
	}
	return "Mend what the cause names before the next run; no run goes on."
}

func findExcludedComponents(v *view) (out findings) {
	s := v.rootCause()
	walkComponents(v.tree, "", func(c *ecsv1.Component, name string) bool {
		if c.GetInError() || c.GetKind() == "node" && s.explains(c) { // another alarm has it
			return true
		}
		out = append(out, exclusionFinding(c, name)...)
		return !c.GetIncluded()
	})
	return out
}

func exclusionFinding(c *ecsv1.Component, name string) findings {
	if c.GetIncluded() || c.GetSpare() || c.GetKind() == "partition" || c.GetKind() == "tagnet" {
		return nil
	}
	return findings{{name, name + " is excluded" + causeSuffix(c)}}
}

func findSilentNodes(v *view) (out findings) {
	s := v.rootCause()
	for _, n := range v.now.GetNodes() {
		switch {
		case !n.GetSilent() || s.involved[n.GetName()] || s.goneNodes[n.GetName()]:
		case n.GetReportAgeMs() == 0:
			out.add(n.GetName(), "%s has not reported yet", n.GetName())
		default:
			out.add(n.GetName(), "%s has not reported for %d s", n.GetName(), n.GetReportAgeMs()/1000)
		}
	}
	return out
}

func findVersionMismatches(v *view) (out findings) {
	for _, n := range v.now.GetNodes() {
		if n.GetVersion() != "" && v.settings.Version != "" && n.GetVersion() != v.settings.Version {
			out.add(n.GetName(), "%s runs version %s, and the control %s", n.GetName(),
				n.GetVersion(), v.settings.Version)
		}
	}
	return out
}

func findMarkedEvents(v *view) (out findings) {
	for _, m := range v.now.GetMissing() {
		name := v.readoutName(m.GetRu())
		since := ""
		if m.WholeFromMep != nil {
			since = fmt.Sprintf("; it is back, and events are whole again from MEP %d on", m.GetWholeFromMep())
		}
		out.add(name, "%d events lack the fragments of %s, which was gone: they are in %s%s",
			m.GetEvents(), name, plural.CountInRange(m.GetMeps(), "MEP", m.GetFirstMep(), m.GetLastMep()), since)
	}
	return out
}

func findDiscardedEvents(v *view) findings {
	d := increase(v.now.GetTotal().GetEventsDiscarded(), v.base.GetTotal().GetEventsDiscarded())
	built := increase(v.now.GetTotal().GetEventsBuilt(), v.base.GetTotal().GetEventsBuilt())
	if !v.isRunning() || d == 0 {
		return nil
	}
	return findings{{"partition", fmt.Sprintf("%s of the events are discarded: their output has no time for them",
		percent(d/(d+built)))}}
}

func findBadInputs(v *view) (out findings) {
	for _, n := range v.now.GetNodes() {
		if n.GetCounters()["ru.bad_input"] > 0 {
			name := unitName("readout unit", n.GetRuIndex(), n.GetName())
			out.add(name, "the input of %s ended with a bad record after %d events", name,
				n.GetCounters()["ru.events_read"])
		}
	}
	return out
}

// schedulerRules are the rules about TagNet.
func schedulerRules() []Rule {
	return []Rule{
		{
			ID:       "builds-nothing",
			Severity: severityError,
			Hold:     3 * time.Second,
			find:     findNothingBuilt,
			When:     "The partition is Running and no event is built.",
			Advice: "See the other alarms; if there are none, look in the timeline for the readout unit that began a step and " +
				"did not end it, and stop the run.",
		},
		{
			ID:       "slots-full",
			Severity: severityInfo,
			Hold:     5 * time.Second,
			find:     findFullSlots,
			When:     "All slots of all builder units are in use, and the scheduler waits for them.",
			Advice: "Builder units and network set the pace, not the sources; if it is too slow see slow-output and " +
				"processors-busy.",
		},
	}
}

// waitReason is a clause on what the scheduler waits for.
func (v *view) waitReason() string {
	switch w := v.now.GetScheduler().GetWaitingFor(); w {
	case "":
		return "the scheduler waits for nothing"
	case "input":
		return "the scheduler waits for input, " + v.slowestReadout()
	case "start":
		return "the scheduler waits for units to attach to it"
	case "builders":
		return "no builder unit takes tokens"
	default:
		return "the scheduler waits for " + w
	}
}

// slowestReadout is a clause with the readout unit that has read least.
func (v *view) slowestReadout() string {
	var least *ecsv1.NodeFigures
	for _, n := range v.now.GetNodes() {
		if n.GetReadout() && (least == nil || n.GetCounters()["ru.meps_read"] < least.GetCounters()["ru.meps_read"]) {
			least = n
		}
	}
	if least == nil {
		return "and no readout unit reads any"
	}
	return fmt.Sprintf("of which %s has read least, %d MEPs", unitName("readout unit", least.GetRuIndex(),
		least.GetName()), least.GetCounters()["ru.meps_read"])
}

func findNothingBuilt(v *view) findings {
	n, b := v.now.GetTotal(), v.base.GetTotal()
	moved := increase(n.GetEventsBuilt(), b.GetEventsBuilt()) + increase(n.GetEventsRejected(),
		b.GetEventsRejected()) + increase(n.GetEventsDiscarded(), b.GetEventsDiscarded())
	if !v.isRunning() || moved > 0 || v.span() < 2*minSpan || v.now.GetScheduler() == nil ||
		v.now.GetScheduler().GetState() == "draining" {
		return nil
	}
	return findings{{"partition", fmt.Sprintf("nothing is built: %s; %d MEPs have a token and no outcome", v.waitReason(),
		n.GetMepsInFlight())}}
}

func findFullSlots(v *view) findings {
	var slots uint64
	for _, u := range v.now.GetScheduler().GetSlots() {
		if u.GetExcluded() {
			continue
		}
		if u.GetUsed() < u.GetSlots() {
			return nil
		}
		slots += u.GetSlots()
	}
	waits := cmp.Or(v.now.GetScheduler().GetWaitingFor(), "nothing")
	if !v.isRunning() || slots == 0 || waits != "slots" && waits != "look_ahead" {
		return nil
	}
	return findings{{"tagnet", fmt.Sprintf("all %d slots of the builder units are in use", slots)}}
}
