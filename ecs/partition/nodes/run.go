package nodes

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/ecs/figures"
	"ringlet/ecs/partition/fault"
	ecsrun "ringlet/ecs/run"
	"ringlet/internal/stopwatch"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	tagcore "ringlet/tagnet/core"
)

// Run is one run of a NodeSet: the shell of the run's machine (package run), which does the machine's actions at nodes
// and scheduler. One goroutine at a time calls the actions; any goroutine may call Step and the methods that return the
// state of the run.
type Run struct {
	*NodeSet
	*scheduler // the control's side of the scheduler
	*units     // exclusion, loss, departure and readmission
	*frontends // that follow the run

	// immutable after Begin
	log *slog.Logger     // of the NodeSet, with the number of this run
	cfg config.Completed // of the NodeSet, with the number of this run
	key recording.Key    // tells this run from others of the same number; zero before Begin

	mu    sync.Mutex // guards what follows
	state ecsrun.State
	drift figures.Drift

	slowDataRank atomic.Int64 // rank of the node that kept slow data last

	// owned by the goroutine of the actions
	stallDetector stopwatch.StallDetector
}

// NewRun makes the run with that number; Begin starts it. The caller has called Configure before.
func (c *NodeSet) NewRun(number uint32) *Run {
	r := &Run{
		NodeSet: c,
		log:     c.log.With("run", number),
		cfg:     c.cfg,
		state:   ecsrun.State{ByItself: ecsrun.EndInput},
	}
	r.cfg.RunNumber = number
	r.scheduler = &scheduler{set: c, log: r.log, cfg: &r.cfg, isEnding: r.isEnding}
	r.units, r.frontends = &units{run: r}, &frontends{run: r}
	c.faults.runNumber.Store(number)
	readout, builder := r.cfg.LossPolicies()
	c.faults.updateCore(func(core *fault.Core) {
		core.SetView(viewUnits(c.View(), r.cfg.DecisionNode), c.opts.TagnetNode, readout, builder)
		core.SetScheduler(c.opts.TagnetNode, r.checkSuccession() == nil)
	})
	if r.cfg.Events > 0 {
		r.state.ByItself = ecsrun.EndEvents
	}
	return r
}

// viewUnits are the units of the nodes in a view; decides names the node with the decision unit, or is empty.
func viewUnits(view *nodev1.View, decides string) (all []fault.Unit) {
	for _, m := range view.GetMembers() {
		all = append(all, fault.Unit{
			Node:     m.GetName(),
			Readout:  m.GetReadout(),
			Builder:  m.GetBuilder(),
			Decision: m.GetName() == decides,
		})
	}
	return all
}

// NewKey draws the key of a run, which identifies its files.
func NewKey() []byte {
	k := recording.NewKey()
	return k[:]
}

// SetKey sets the key of the run, if key has a key's length. Call it before Begin, which otherwise draws one.
func (r *Run) SetKey(key []byte) {
	if len(key) == len(r.key) {
		r.key = recording.Key(key)
	}
}

// Configuration of the run: that of the NodeSet, with its number.
func (r *Run) Configuration() config.Completed { return r.cfg }

// Number of the run.
func (r *Run) Number() uint32 { return r.cfg.RunNumber }

// Step gives an input to the machine of the run, and returns the state after it and the actions for the caller.
func (r *Run) Step(in ecsrun.Input) (now ecsrun.State, do []ecsrun.Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, do = r.state.Step(in)
	return r.state, do
}

// State is the state of the run's machine.
func (r *Run) State() ecsrun.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// NoteDrift notes what the comparison of live sources has found so far.
func (r *Run) NoteDrift(d figures.Drift) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drift = d
}

// Drift is what NoteDrift has noted last.
func (r *Run) Drift() figures.Drift {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drift
}

func (r *Run) isEnding() bool { return r.State().Phase >= ecsrun.Draining }

// Begin makes the scheduler, starts the nodes and waits for the front-ends that the input requires. After an error some
// nodes may be in Error: FaultOf finds the cause.
func (r *Run) Begin(ctx context.Context) error {
	r.faults.clearIfIgnoring()
	if r.key == (recording.Key{}) {
		r.key = recording.NewKey()
	}
	if err := r.startScheduler(ctx); err != nil {
		return err
	}
	r.faults.tolerateLosses(r.handleLosses)
	if err := r.commandTogether(ctx, r.startCommand(&nodev1.CommandRequest{})); err != nil {
		return err
	}
	if err := r.goneBeforeStart(); err != nil {
		return err
	}
	return r.beginSources(ctx)
}

// startCommand fills in the command start.
func (r *Run) startCommand(req *nodev1.CommandRequest) *nodev1.CommandRequest {
	r.scheduler.mu.Lock()
	defer r.scheduler.mu.Unlock()
	req.Command, req.Run, req.View = nodev1.Command_COMMAND_START, r.cfg.RunNumber, r.View()
	req.TagnetName, req.TagnetAddress, req.RunKey = r.tagnetName, r.tagnetAddress, r.key[:]
	return req
}

// goneBeforeStart is the fault that a node was gone before it got the command start, and was not lost to the run:
// without it nothing would be built. It is nil if there is no such node.
func (r *Run) goneBeforeStart() error {
	for _, n := range r.nodes {
		if r.isUnavailable(n) && !r.Presence(n.name).HasLeftRun() {
			x := fault.SeenByControl(n.name, fault.SubsystemProcess,
				"its process has ended, or was started anew, since it was configured")
			x.Advice = "Begin again when it is there: a start configures by itself."
			return &fault.Error{Fault: x}
		}
	}
	return nil
}

// Pause has the scheduler issue no tokens, and every node pause.
func (r *Run) Pause(ctx context.Context) error {
	r.pauseFirst(ctx)
	if err := r.current().Pause(); err != nil {
		return err
	}
	return r.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_PAUSE})
}

// Resume undoes Pause.
func (r *Run) Resume(ctx context.Context) error {
	if err := r.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESUME}); err != nil {
		return err
	}
	if err := r.current().Resume(); err != nil {
		return err
	}
	r.BeginLast(ctx)
	return nil
}

// CheckStall observes a fault if the drain has made no progress for drainStallTimeout. Call it about twice a second.
func (r *Run) CheckStall(now time.Time) {
	reg := r.Stats().Registers
	if r.stallDetector.Observe(r.faults.awakeTime(now), r.ProgressCount()) >= drainStallTimeout {
		f := stallCause(reg, r.unendedReadouts(reg))
		r.faults.updateCore(func(c *fault.Core) { c.NameUnresponsive(&f, now) })
		r.faults.observe(fault.Observation{Kind: fault.SelfReported, Fault: f})
	}
}

// End has every node end the run and complete its output, and collects their final reports. It fails if a fault has
// struck, or if a node does not end.
func (r *Run) End() (out ecsrun.Outcome, failed *fault.Error) {
	if c := r.AwaitCause(); c != nil {
		return out, c
	}
	r.Stats() // get the final figures now: the scheduler's node may be lost while the nodes stop
	ctx, cancel := stopwatch.WithStallTimeout(context.Background(), stopStallTimeout, r.ProgressCount, nil)
	defer cancel()
	ctx, stop := r.faults.untilFault(ctx, nil, 0)
	defer stop()
	if err := r.commandAll(ctx, &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP}); err != nil {
		if still := r.stallFault(ctx); still != nil {
			return out, still
		}
		return out, r.FaultOf(err, "while stopping")
	}
	r.faults.updateCore((*fault.Core).IgnoreFaults)
	r.collectReports()
	return r.outcome(), r.forcedStopFault()
}

// outcome is the run's end by the reports of the stopped nodes.
func (r *Run) outcome() (out ecsrun.Outcome) {
	now := r.State()
	why := r.SelfStopCause()
	out.SelfStop = why != nil && (now.Draining.IsZero() || why.GetAtUs() < now.Draining.UnixMicro())
	for _, n := range r.nodes {
		if rep := n.latestReport(); reportedCounts(rep).BadInput > 0 {
			out.BadInput = cmp.Or(rep.GetStatus().GetCause().GetWhat(), "a record of the input of "+n.name+" is bad")
			break
		}
	}
	down, broken := r.inputFailure(now.End == ecsrun.EndInput && !out.SelfStop && out.BadInput == "")
	if out.BrokenSource = broken; down != nil {
		out.InputFault = &down.Fault
	}
	return out
}

// stopStallTimeout is how long the nodes may go without progress (Run.ProgressCount) while they stop. It is a little
// longer than a node's own time-out: the node can say why.
const stopStallTimeout = 65 * time.Second

// NeverBegan is the report of a run that did not begin, for the fault behind err, or since ctx was interrupted.
func (r *Run) NeverBegan(ctx context.Context, err error, while string) *Report {
	in := ecsrun.Input{Kind: ecsrun.Stop, Reason: ecsrun.EndInterrupted, At: time.Now()}
	if ctx.Err() == nil {
		in.Kind, in.Fault = ecsrun.Failed, &r.FaultOf(err, while).Fault
	}
	now, _ := r.Step(ecsrun.Input{Kind: ecsrun.Open})
	in.Ticket = now.Ticket
	r.Step(in)
	r.Drop()
	return r.MakeReport()
}

// Drop makes every node drop the MEPs under way, and collects the final reports. Files that were written stay.
func (r *Run) Drop() {
	r.faults.updateCore((*fault.Core).IgnoreFaults)
	r.linked.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(giveUpTimeout))
	defer cancel()
	stop := &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Abandon: true}
	if err := r.commandAll(ctx, stop); err != nil {
		r.log.Info("not every node could be told to give up, or some had done so", "err", err)
	}
	// Nodes first: a node that still works would take the scheduler's abandon for a fault.
	if s := r.current(); s != nil {
		if err := s.Abandon(); err != nil {
			r.log.Info("the scheduler could not be told to give up", "err", err)
			r.lost = !accountsFinal(r.LastStats())
		}
	}
	r.collectReports()
}

// giveUpTimeout bounds how long nodes may take to drop the MEPs under way: they wait for nothing.
const giveUpTimeout = 2 * time.Second

// Collect collects the reports of a run that is over on its nodes, from those that still answer.
func (r *Run) Collect() {
	r.linked.Store(false)
	r.faults.updateCore((*fault.Core).IgnoreFaults)
	r.collectReports()
}

// collectReports asks the scheduler for its figures and every node for its final report, at the same time.
func (r *Run) collectReports() {
	if err := r.refreshStats(); err != nil && !accountsFinal(r.LastStats()) {
		r.log.Warn("the scheduler did not give its last figures", "err", err)
		r.lost = true
	}
	most := r.cfg.Timeouts().Control
	if r.State().GivenUp {
		most = finalReportTryTimeout // no accounts depend on the reports
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.timeoutFor(most))
	defer cancel()
	_ = r.forEach(func(n *member) error { // the last report of a node that does not answer stays
		if !r.awaitFinal(ctx, n) {
			r.log.Warn("a node did not give its final report", "node", n.name)
		}
		return nil
	})
}

// awaitFinal asks a node for its final report until it answers or ctx ends: a node that hangs for a moment is not lost.
// It asks only once if the node's process has ended, the node is lost to the run, or the run was given up.
func (r *Run) awaitFinal(ctx context.Context, n *member) bool {
	return poll(ctx, retryInterval, func() (bool, error) {
		each, cancel := context.WithTimeout(ctx, r.opts.timeoutFor(finalReportTryTimeout))
		defer cancel()
		err := n.requestReport(each)
		if err == nil || r.faults.isFinal(n.latestReport()) {
			return true, nil
		}
		at := r.Presence(n.name)
		return r.State().GivenUp || isConnRefused(err) || at.Lost || at.ProcessEnded, err
	}) == nil
}

// accountsFinal says that the figures that a scheduler reported cannot change any more.
func accountsFinal(st tagcore.Stats) bool {
	reg := st.Registers
	return tagcore.State(reg.GetState()) == tagcore.Drained && reg.GetInFlight() == 0
}

// finalReportTryTimeout bounds one request for a node's final report, which the node has ready. Timeouts.Control bounds
// all requests to it, as it does the silence of a node in a run.
const finalReportTryTimeout = 2 * time.Second
