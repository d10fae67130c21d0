package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"ringlet/builderunit/recording"
	"ringlet/ecs/partition/fault"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// TagnetNode is the node on which the scheduler lives; empty: this process.
func (c *Crew) TagnetNode() string { return c.opts.TagnetNode }

// tagnetNode finds that node.
func (c *Crew) tagnetNode() (*member, error) {
	n, err := c.findMember(c.opts.TagnetNode)
	if err != nil {
		return nil, &fault.Error{Fault: fault.Fault{
			Component: ControlName,
			Subsystem: fault.SubsystemScheduler,
			What:      fmt.Sprintf("the scheduler is to live on %s, which takes no part", c.opts.TagnetNode),
		}}
	}
	return n, nil
}

// createScheduler makes the scheduler on its host and takes it up.
func (r *Run) createScheduler(ctx context.Context, n *member, core tagnet.Config) error {
	if err := tagnet.BeginScheduler(ctx, n.conn, r.schedulerScope(), core, r.opts.ReadyTimeout+attachGrace); err != nil {
		return &fault.Error{Fault: fault.SeenByControl(n.name, fault.SubsystemScheduler,
			"the scheduler could not be made on it: "+err.Error())}
	}
	r.attachScheduler(n)
	return nil
}

// attachScheduler speaks with a scheduler that has begun on its host.
func (r *Run) attachScheduler(n *member) {
	scope := r.schedulerScope()
	sched := tagnet.NewRemote(n.conn, tagnet.RemoteConfig{
		Scope: scope, OnIncident: r.observePeerError, MinCallTimeout: r.opts.MinTimeout,
		OnGone: func(err error) {
			if r.isEnding.Load() && accountsFinal(r.LastStats()) {
				return // it has told all that it had to
			}
			r.faults.observe(fault.Observation{Kind: fault.Disconnected,
				Fault: fault.SeenByControl(n.name, fault.SubsystemScheduler,
					"the scheduler that lived on it is gone: "+err.Error())})
		},
	})
	r.mu.Lock()
	r.sched = sched
	r.mu.Unlock()
	r.endScheduler = func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(endSchedulerTimeout))
		defer cancel()
		if err := tagnet.EndScheduler(ctx, n.conn, scope); err != nil {
			r.log.Info("the scheduler on a node could not be ended", "node", n.name, "err", err)
		}
	}
}

// endSchedulerTimeout bounds how long the end of a scheduler on a node may take; a node that is gone took it along.
const endSchedulerTimeout = 2 * time.Second

func (r *Run) schedulerScope() tagnet.Scope {
	return tagnet.Scope{
		Run:  r.cfg.RunNumber,
		View: r.View().GetNumber(),
		Name: ControlName,
		Term: r.opts.Term,
	}
}

// Rejoin connects to the nodes of a view that an earlier control has made, and speaks with each; UnreachableNodes tells
// who does not answer. Adopt or EnsureWatched begins to watch them. That control knew whether they were linked.
func (c *Crew) Rejoin(ctx context.Context, view *nodev1.View, linked bool) error {
	c.view.Store(view)
	c.linked.Store(linked)
	for _, m := range view.GetMembers() {
		if err := c.dial(m); err != nil {
			return err
		}
	}
	return c.awaitAnswers(ctx)
}

// EnsureWatched watches nodes that were rejoined, if that has not begun yet.
func (c *Crew) EnsureWatched() {
	if c.stopWatch != nil {
		return
	}
	c.faults.updateCore((*fault.Core).AcceptReports)
	c.watchNodes()
}

// EndScheduler ends the scheduler of a run that is over, if its node still has it.
func (c *Crew) EndScheduler(number uint32) {
	c.linked.Store(false) // nobody knows how it ended
	r := c.NewRun(number)
	if n, err := c.tagnetNode(); err == nil {
		r.attachScheduler(n)
		r.Shutdown()
	}
}

// Adopt takes up a run that an earlier control has begun at that time, with that key; where it has none on record nodes
// may tell it.
func (c *Crew) Adopt(number uint32, key []byte, began time.Time) (*Run, error) {
	r := c.NewRun(number)
	n, err := c.tagnetNode()
	if err != nil {
		return nil, err
	}
	r.startedAt, r.key = began, c.reportedKey(number)
	r.tagnetName, r.tagnetAddress = n.name, n.entry().GetGrpcAddress()
	r.SetKey(key)
	r.attachScheduler(n)
	for _, u := range r.Stats().GetBus() {
		c.faults.updateCore(func(core *fault.Core) { core.AdoptUnit(u.GetName(), u.GetLost(), u.GetExcluded()) })
	}
	for _, u := range r.Stats().GetRus() {
		c.faults.updateCore(func(core *fault.Core) { core.AdoptUnit(u.GetName(), u.GetExcluded(), u.GetExclusions() > 0) })
	}
	c.faults.tolerateLosses(r.handleLoss)
	c.EnsureWatched()
	return r, nil
}

// reportedKey is the key of a run as its nodes tell it; zero where none does.
func (c *Crew) reportedKey(number uint32) (k recording.Key) {
	for _, rep := range c.Reports() {
		if rep.GetRun() == number && len(rep.GetRunKey()) == len(k) {
			return recording.Key(rep.GetRunKey())
		}
	}
	return k
}

// SelfStopCause is why the nodes have ended, or end, the run without a control, and since when, as the first of
// them tells; nil if none has.
func (c *Crew) SelfStopCause() (first *nodev1.Cause) {
	for _, rep := range c.Reports() {
		if why := rep.GetStopped(); why != nil && (first == nil || why.GetAtUs() < first.GetAtUs()) {
			first = why
		}
	}
	return first
}

// EndedAt is when the run was over on the last of its nodes, by their clocks; zero if one cannot tell. Nodes without
// which it went on are not asked.
func (r *Run) EndedAt() time.Time {
	var last int64
	for _, n := range r.nodes {
		rep := n.latestReport()
		switch {
		case r.isLost(n.name) || r.WithdrawalText(n.name) != "":
		case rep.GetRun() != r.cfg.RunNumber || rep.GetEndedAtUs() == 0:
			return time.Time{}
		default:
			last = max(last, rep.GetEndedAtUs())
		}
	}
	return time.UnixMicro(last)
}

// RunningAndMissing says on how many nodes the run goes on, of those that have told anything since they were rejoined,
// and names who cannot tell any more how it ended: nodes without a report of it, and the scheduler. Nodes that are lost
// to it are not asked.
func (r *Run) RunningAndMissing() (running int, missing []string) {
	for _, n := range r.nodes {
		rep := n.latestReport()
		switch {
		case r.isLost(n.name):
		case rep.GetRun() != r.cfg.RunNumber:
			missing = append(missing, n.name)
		case !rep.GetFinal():
			running++
		}
	}
	if !r.schedulerAnswers() {
		missing = append(missing, "the scheduler on "+r.opts.TagnetNode)
	}
	return running, missing
}

// schedulerAnswers says whether the scheduler answers. A question that is lost on the way to a node which answers
// otherwise is asked again for a while: only the node itself can say that it has no such scheduler.
func (r *Run) schedulerAnswers() bool {
	n, err := r.tagnetNode()
	for until := time.Now().Add(retryTimeout); err == nil; {
		_, failed := r.scheduler().Stats()
		var gone *tagnet.GoneError
		if failed == nil {
			return true
		}
		if !errors.As(failed, &gone) || n.unresponsive.Load() || time.Now().After(until) {
			return false
		}
		time.Sleep(retryInterval)
	}
	return false
}

// Facts are what the nodes say of themselves, for Config.Check.
func (c *Crew) Facts() []config.NodeFacts {
	facts := make([]config.NodeFacts, len(c.nodes))
	for i, rep := range c.Reports() {
		m := rep.GetMachine()
		facts[i] = config.NodeFacts{
			Name:        c.nodes[i].name,
			MemoryBytes: int64(m.GetMemoryBytes()),
			ShmBytes:    int64(m.GetShmBytes()),
			MachineID:   m.GetShares(),
		}
	}
	return facts
}

// RequestFacts asks members of the cluster what they have. Those that do not answer before ctx ends are left out.
func RequestFacts(ctx context.Context, id *certs.Identity, term tagnet.Term,
	members []cluster.Member) []config.NodeFacts {
	c := NewCrew(Options{Identity: id, Term: term}, config.Config{})
	defer c.CloseConnections()
	for _, m := range members {
		if err := c.dial(&nodev1.Member{Name: m.Name, GrpcAddress: m.Meta.GRPCAddr}); err != nil {
			c.log.Warn("a node cannot be asked what it has", "node", m.Name, "err", err)
		}
	}
	_ = c.awaitAnswers(ctx)
	var facts []config.NodeFacts
	for i, f := range c.Facts() {
		if c.nodes[i].latestReport() != nil {
			facts = append(facts, f)
		}
	}
	return facts
}

// Describe is what people may want to know of a node.
func (c *Crew) Describe(rank int) map[string]string {
	n := c.nodes[rank]
	rep := n.latestReport()
	about := map[string]string{"address": n.entry().GetGrpcAddress(), "data": n.entry().GetQuicAddress()}
	for key, v := range map[string]string{"version": rep.GetVersion(), "host": rep.GetMachine().GetHost()} {
		if v != "" {
			about[key] = v
		}
	}
	return about
}

// Profile writes a profile of a node.
func (c *Crew) Profile(ctx context.Context, w io.Writer, name, kind string, length time.Duration) error {
	n, err := c.findMember(name)
	if err != nil {
		return err
	}
	return node.ReadProfile(ctx, n.client, w, kind, length)
}

// WithdrawalText says how a node has left in good order; empty if it has not.
func (c *Crew) WithdrawalText(name string) string {
	return queryCore(c.faults, func(core *fault.Core) string { return core.WithdrawalText(name) })
}

// LostReason says why a node is taken for lost; empty if it is not.
func (c *Crew) LostReason(name string) string {
	return queryCore(c.faults, func(core *fault.Core) string { return core.GoneReason(name) })
}
