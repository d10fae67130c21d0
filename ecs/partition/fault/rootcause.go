package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlet/internal/nodename"
)

// How long after the first observation the control waits for one that is closer to the cause. Nodes report a change of
// state at once, and the control sees the end of a process that it started within milliseconds; a busy machine is
// slower. Where a node blames another one, which may be sound and say so itself, it waits for Timeouts.Witness.
const (
	witnessTimeout = 300 * time.Millisecond

	// SessionWitnessTimeout is for a broken session: the nodes at its ends report why it broke.
	SessionWitnessTimeout = 2 * time.Second
)

// IsConclusive says whether, this long after the first observation, no closer one need be waited for.
func (c *Core) IsConclusive(waited time.Duration) bool {
	closest := ReportedByPeer
	for _, x := range c.fatalObservations {
		closest = min(closest, x.Kind)
	}
	switch {
	case len(c.fatalObservations) == 0 || waited >= c.timeouts.Witness:
		return true
	case closest <= SelfReported:
		return waited >= witnessTimeout
	}
	return waited >= SessionWitnessTimeout && closest != ReportedByPeer
}

// account is the observations in which a cause is sought.
type account struct {
	core         *Core
	observations []Observation
	now          time.Time // awake time
}

// Cause is the root cause as far as it is known now, with the nodes that followed and the advice; nil if there was no
// fatal observation.
func (c *Core) Cause(now time.Time) *Fault {
	return (&account{c, c.fatalObservations, c.clock.tick(now)}).cause()
}

func (a *account) cause() *Fault {
	if len(a.observations) == 0 {
		return nil
	}
	f, roots := a.rootCause()
	for _, name := range a.core.names {
		concerns := func(x Observation) bool { return x.Component == name || x.ReportedBy == name }
		if !slices.Contains(roots, name) && slices.ContainsFunc(a.observations, concerns) {
			f.Followed = append(f.Followed, name)
		}
	}
	return f
}

// Losses are the faults of the nodes that the run goes on without: one for each node, by its closest observation.
func (c *Core) Losses() []Fault { return c.lossesIn(c.lossObservations) }

func (c *Core) lossesIn(losses []Observation) (all []Fault) {
	seen := &account{core: c, observations: losses}
	for _, name := range c.names {
		var best *Observation
		for i := range losses {
			if x := &losses[i]; x.Component == name && (best == nil || x.closerThan(best)) {
				best = x
			}
		}
		if best == nil || best.Kind == Disconnected && hasGivenUp(c.fatalObservations, name) {
			continue
		}
		f := seen.asFault(*best)
		if best.Kind == Disconnected && best.ReportedBy != "" {
			f.What = "it stands still or cannot be reached: " + joinNames(witnesses(losses, name)) +
				" can send it nothing any more" + c.nodes[name].location()
		}
		all = append(all, f)
	}
	return all
}

// FirstLoss is the first tolerated loss of the run, even of a node that was readmitted; nil if there was none.
func (c *Core) FirstLoss() *Fault {
	ever := append(slices.Clone(c.readmittedLosses), c.lossObservations...)
	for _, f := range c.lossesIn(ever) {
		if f.Component == ever[0].Component {
			f.At = ever[0].At
			return &f
		}
	}
	return nil
}

// asFault is the fault of an observation, with the component's location and the advice.
func (a *account) asFault(x Observation) Fault {
	f := x.Fault
	if x.Kind.processEnded() || x.Kind == ProcessStopped || x.Kind == SilentToControl {
		f.What += a.core.nodes[x.Component].location()
	}
	f.Advice = a.adviceFor(x)
	return f
}

// CauseAmong returns the root cause among the given observations alone; nil if none of them counts. Core does not keep
// them.
func (c *Core) CauseAmong(observations []Observation, now time.Time) *Fault {
	among := &account{core: c, now: c.clock.tick(now)}
	for _, x := range observations {
		if x, counts := c.admit(x); counts {
			among.observations = append(among.observations, x)
		}
	}
	return among.cause()
}

// rootCause finds the cause, and the components that it names.
func (a *account) rootCause() (*Fault, []string) {
	var first *Observation
	for i := range a.observations {
		if x := &a.observations[i]; x.Kind <= SelfReported && (first == nil || x.closerThan(first)) {
			first = x
		}
	}
	if first == nil {
		return a.deadLinkCause()
	}
	f, roots := a.asFault(*first), []string{first.Component}
	if !first.Kind.processEnded() {
		return &f, roots
	}
	ends := []processEnd{{[]string{first.Component}, f.What}}
	for _, x := range a.observations {
		if !x.Kind.processEnded() || slices.Contains(roots, x.Component) {
			continue
		}
		roots = append(roots, x.Component)
		i := slices.IndexFunc(ends, func(e processEnd) bool { return shareProcess(a.core.nodes, e.nodes[0], x.Component) })
		if i < 0 {
			i, ends = len(ends), append(ends, processEnd{what: a.asFault(x).What})
		}
		ends[i].nodes = append(ends[i].nodes, x.Component)
	}
	f.Component = strings.Join(roots, ", ")
	switch {
	case len(ends) > 1:
		texts := make([]string, len(ends))
		for i, e := range ends {
			texts[i] = joinNames(e.nodes) + ": " + e.text()
		}
		f.What = "their processes have ended; " + strings.Join(texts, "; ")
		f.Advice = strings.ReplaceAll(f.Advice, "its process", "the processes of "+joinNames(roots))
	case len(roots) > 1:
		f.What, f.Advice = ends[0].text(), strings.ReplaceAll(f.Advice, "its process", "their process")
	}
	return &f, roots
}

// processEnd is the end of a process with some nodes.
type processEnd struct {
	nodes []string
	what  string
}

func (e processEnd) text() string {
	if len(e.nodes) == 1 {
		return e.what
	}
	return strings.Replace(e.what, "its process", "their process", 1)
}

// shareProcess says that two nodes are in one process, by their names and their last reports.
func shareProcess(nodes map[string]*node, a, b string) bool {
	m, n := nodes[a], nodes[b]
	return nodename.ProcessOf(a) == nodename.ProcessOf(b) && m.host == n.host && m.processID == n.processID
}

// deadLinkCause finds the cause where no process has ended and no component reports a fault of its own: a node hangs or
// is cut off.
func (a *account) deadLinkCause() (*Fault, []string) {
	var edges []Observation // dead links and sessions
	for _, x := range a.observations {
		if !x.LinkClosed && (x.Kind == ReportedByPeer || !hasGivenUp(a.observations, x.Component)) {
			edges = append(edges, x)
		}
	}
	if len(edges) == 0 {
		f := a.asFault(a.observations[0])
		return &f, []string{f.Component}
	}
	if f := a.isolatedScheduler(edges); f != nil {
		return f, []string{f.Component}
	}
	silent := slices.DeleteFunc(slices.Clone(edges), func(x Observation) bool {
		return hasGivenUp(a.observations, x.Component)
	})
	if len(silent) > 0 {
		return a.missingCause(silent)
	}
	return a.commonEndCause(edges)
}

// isolatedScheduler is the fault of a scheduler that has lost the sessions with all nodes at once: the scheduler's end
// is what these sessions share. It is nil if the scheduler still has a node, or nodes report dead links as well.
func (a *account) isolatedScheduler(edges []Observation) *Fault {
	lost := map[string]bool{}
	for _, x := range edges {
		if x.ReportedBy != "" || x.Kind != Disconnected || x.Subsystem == SubsystemTransport { // a dead link
			return nil
		}
		lost[x.Component] = true
	}
	if len(lost) < 2 || len(lost) < len(a.core.names) {
		return nil
	}
	f := edges[0].Fault
	f.Component, f.Subsystem = cmp.Or(a.core.scheduler, "control"), SubsystemScheduler
	f.Evidence = strings.TrimPrefix(f.What+", "+f.Evidence, ", ")
	f.What = "the scheduler there has lost its sessions with all nodes at once"
	f.Advice = "Look at the network of its host, at its load, and whether certificates have expired."
	return &f
}

// missingCause finds the cause among components that report nothing: the one that most witnesses miss. If a single node
// misses it and the control still hears it, the link between the two is the cause.
func (a *account) missingCause(edges []Observation) (*Fault, []string) {
	best, by := edges[0], witnesses(edges, edges[0].Component)
	for _, x := range edges {
		w := witnesses(edges, x.Component)
		if x.Kind < best.Kind && len(w) >= len(by) || len(w) > len(by) {
			best, by = x, w
		}
	}
	name := best.Component
	alone := len(by) == 1 && best.ReportedBy != "" && best.Subsystem == SubsystemTransport
	switch n := a.core.node(name); {
	case alone && a.core.inRun && !n.lastReport.IsZero() && a.now.Sub(n.lastReport) < a.core.timeouts.Missed:
		return a.linkFault(best)
	case best.Subsystem == SubsystemTransport && a.core.inRun && best.ReportedBy != "":
		f := best.Fault
		if !n.lastReport.IsZero() && a.now.Sub(n.lastReport) >= a.core.timeouts.Missed {
			by = append(by, "the control")
		}
		f.What = "it stands still or cannot be reached: nothing is heard of it any more by " + joinNames(by) +
			a.core.nodes[name].location()
		f.Evidence = strings.TrimPrefix(best.What+", "+best.Evidence, ", ")
		f.Advice = "Look whether its process and its host live and whether the network to it is whole; " +
			"end a process that stands still, and start it again."
		return &f, []string{name}
	}
	f := a.asFault(best)
	return &f, []string{name}
}

// commonEndCause finds the cause where every node reports and blames another one: the node at the end of most dead
// links, or the link if no node stands out.
func (a *account) commonEndCause(edges []Observation) (*Fault, []string) {
	others := map[string][]string{}
	note := func(end, other string) {
		if end != "" && !slices.Contains(others[end], other) {
			others[end] = append(others[end], other)
		}
	}
	for _, x := range edges {
		note(x.ReportedBy, x.Component)
		note(x.Component, x.ReportedBy)
	}
	hub, unique := "", false
	for _, name := range a.core.names {
		switch n := len(others[name]); {
		case hub == "" || n > len(others[hub]):
			hub, unique = name, true
		case n == len(others[hub]):
			unique = false
		}
	}
	if !unique || len(others[hub]) < 2 {
		return a.linkFault(edges[0])
	}
	f := edges[0].Fault
	f.Component = hub
	f.What = "its links to " + joinNames(others[hub]) + " are dead, and the control hears all of them" +
		a.core.nodes[hub].onHost(", on ")
	f.Advice = "Look at the network of its host: cable, port, addresses, firewall."
	return &f, []string{hub}
}

// linkFault is the fault of a dead link; the control hears the nodes at both ends.
func (a *account) linkFault(x Observation) (*Fault, []string) {
	f, ends := x.Fault, []string{x.ReportedBy, x.Component}
	slices.Sort(ends)
	f.Component, f.Subsystem = "the link between "+ends[0]+" and "+ends[1], SubsystemTransport
	f.What = "it is dead, and the control hears both ends"
	f.Evidence = strings.TrimPrefix(x.What+", "+x.Evidence, ", ")
	f.Advice = "Look at the network between " + ends[0] + a.core.nodes[ends[0]].onHost(" on ") + " and " + ends[1] +
		a.core.nodes[ends[1]].onHost(" on ") +
		": cables, ports, a firewall that lets one way through only."
	return &f, nil // no root: both ends followed
}

// witnesses are the nodes, the scheduler or the control that miss a component, sorted.
func witnesses(edges []Observation, name string) (by []string) {
	for _, x := range edges {
		who := x.ReportedBy
		if who == "" {
			who = strings.TrimPrefix(x.Evidence, "seen by ")
		}
		if x.Component == name && !slices.Contains(by, who) {
			by = append(by, who)
		}
	}
	slices.Sort(by)
	return by
}

// joinNames lists names in a sentence: n0, n1 and n2.
func joinNames(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// Sentence is the fault in words: the component, what happened, and the nodes that followed.
func (f *Fault) Sentence() string {
	s := f.Component + ": " + f.What
	if len(f.Followed) > 0 {
		s += fmt.Sprintf("; %s gave up for that", joinNames(f.Followed))
	}
	return s
}
