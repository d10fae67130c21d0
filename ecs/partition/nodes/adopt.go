package nodes

import (
	"context"
	"slices"
	"time"

	"ringlet/ecs/partition/fault"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
)

// Rejoin connects to the nodes of a view that an earlier control made, and asks each for a report. If some do not
// answer, UnreachableNodes names them from the error. linked says whether the earlier control had linked the nodes.
// With inRun a node at whose address no process listens is not waited for: a new one would not know the run. Call Adopt
// or EnsureWatched next.
func (c *NodeSet) Rejoin(ctx context.Context, view *nodev1.View, linked, inRun bool) error {
	c.view.Store(view)
	c.linked.Store(linked)
	if err := c.dial(view.GetMembers()...); err != nil {
		return err
	}
	return c.awaitAnswers(ctx, inRun)
}

// EndScheduler ends the scheduler of a run that is over, if its node still has it.
func (c *NodeSet) EndScheduler(number uint32) {
	c.linked.Store(false) // the run may have ended with broken links
	r := c.NewRun(number)
	r.tagnetName = reportedScheduler(c.Reports(), number)
	if n, err := r.tagnetNode(); err == nil {
		r.attachScheduler(n)
		r.Shutdown()
	}
}

// Adopt takes up a run that an earlier control began. key is the run's key by its record; if the record has none, the
// key comes from the nodes' reports. Call LoseAbsent and EnsureWatched next.
func (c *NodeSet) Adopt(number uint32, key []byte) (*Run, error) {
	r := c.NewRun(number)
	r.tagnetName = reportedScheduler(c.Reports(), number)
	c.faults.updateCore(func(core *fault.Core) { core.SetScheduler(r.SchedulerNode(), r.checkSuccession() == nil) })
	n, err := r.tagnetNode()
	if err != nil {
		return nil, err
	}
	r.key = reportedKey(c.Reports(), number)
	r.tagnetName, r.tagnetAddress = n.process(), n.entry().GetGrpcAddress()
	r.SetKey(key)
	if r.hasRun(n) && r.askScheduler(n) == nil { // what it tells of losses comes before any other observation
		for _, u := range r.LastStats().GetBus() {
			c.faults.updateCore(func(core *fault.Core) {
				core.AdoptUnit(u.GetName(), u.GetLost(), u.GetExcluded(), u.GetCounters().GetExclusions() > 0)
			})
		}
		for _, u := range r.LastStats().GetRus() {
			c.faults.updateCore(func(core *fault.Core) {
				core.AdoptUnit(u.GetName(), u.GetExcluded(), false, u.GetExclusions() > 0)
			})
		}
	}
	c.faults.tolerateLosses(r.handleLosses)
	for _, m := range c.nodes {
		c.faults.updateCore(func(core *fault.Core) { fault.NoteAnswer(core, m.name, time.Now(), m.answeredAfter) })
	}
	r.attachScheduler(n)
	return r, nil
}

// hasRun says that a node answered a Rejoin, and has the run.
func (r *Run) hasRun(n *member) bool {
	return !n.unresponsive.Load() && n.latestReport().GetRun() == r.cfg.RunNumber
}

// LoseAbsent loses the nodes that have gone from a run which others still build, while no control was there. It returns
// when the run goes on without them, with a successor if one had the scheduler, or is to end. Call it after Adopt.
func (r *Run) LoseAbsent() {
	if !slices.ContainsFunc(r.nodes, r.builds) || r.SelfStopCause() != nil {
		return // the run is over, or ends
	}
	r.units.takeover.Lock() // the successor waits for nobody who is found to be gone
	for _, n := range r.nodes {
		if x := r.absence(n); x != nil && !r.Presence(n.name).Lost {
			r.faults.observe(*x)
		}
	}
	r.units.takeover.Unlock()
	r.faults.awaitLosses()
}

// builds says that a node has the run, and has not ended it.
func (r *Run) builds(n *member) bool { return r.hasRun(n) && !n.latestReport().GetFinal() }

// absence is the observation that a node does not build the run any more; nil if it does.
func (r *Run) absence(n *member) *fault.Observation {
	if n.unresponsive.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(firstAnswerTimeout))
		defer cancel()
		if err := n.requestReport(ctx); err != nil {
			x := r.watch.lossObservation(n, err)
			return &x
		}
		n.unresponsive.Store(false)
	}
	x := fault.Observation{Kind: fault.ProcessVanished, Fault: fault.SeenByControl(n.name, fault.SubsystemProcess,
		n.processWords()+" has ended while no control was there, and "+(&newProcessError{}).Error())}
	switch {
	case r.builds(n):
		return nil
	case r.hasRun(n):
		x.Kind, x.What = fault.SilentToControl, "it ended its part in the run while no control was there"
	}
	return &x
}

// reportedScheduler is the node that has the scheduler of a run, by most reports; empty if none says it. It is not the
// configured one if another node has taken the scheduler over.
func reportedScheduler(reports []*nodev1.Report, number uint32) (name string) {
	says := map[string]int{}
	for _, rep := range reports {
		if on := rep.GetTagnetName(); on != "" && rep.GetRun() == number {
			if says[on]++; says[on] > says[name] {
				name = on
			}
		}
	}
	return name
}

// reportedKey is the key of a run by the reports of its nodes; zero if none has it.
func reportedKey(reports []*nodev1.Report, number uint32) (k recording.Key) {
	for _, rep := range reports {
		if rep.GetRun() == number && len(rep.GetRunKey()) == len(k) {
			return recording.Key(rep.GetRunKey())
		}
	}
	return k
}

// SelfStopCause is why, and since when, nodes end the run because they missed the control: of the node that began
// first. It is nil if none does.
func (c *NodeSet) SelfStopCause() (first *nodev1.Cause) {
	for _, rep := range c.Reports() {
		if why := rep.GetStopped(); why != nil && (first == nil || why.GetAtUs() < first.GetAtUs()) {
			first = why
		}
	}
	return first
}

// EndedAt is when the run was over on the last of its nodes, by the nodes' clocks; zero if a node has not reported it.
// Nodes that were lost or have withdrawn do not count.
func (r *Run) EndedAt() time.Time {
	var last int64
	for _, n := range r.nodes {
		rep := n.latestReport()
		switch {
		case r.Presence(n.name).HasLeftRun():
		case rep.GetRun() != r.cfg.RunNumber || rep.GetEndedAtUs() == 0:
			return time.Time{}
		default:
			last = max(last, rep.GetEndedAtUs())
		}
	}
	return time.UnixMicro(last)
}

// RunningAndMissing returns, after a Rejoin, the number of nodes on which the run goes on, and the names of the nodes,
// and of the scheduler, that cannot report any more how it ended. Nodes that are lost to the run do not count.
func (r *Run) RunningAndMissing() (running int, missing []string) {
	for _, n := range r.nodes {
		rep := n.latestReport()
		switch {
		case r.Presence(n.name).Lost:
		case rep.GetRun() != r.cfg.RunNumber:
			missing = append(missing, n.name)
		case !rep.GetFinal():
			running++
		}
	}
	if !r.schedulerAnswers() {
		missing = append(missing, "the scheduler on "+r.SchedulerNode())
	}
	return running, missing
}
