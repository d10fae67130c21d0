package partition

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// Adopt takes up what an earlier control left. A run that goes on continues under this control, a run that was
// beginning is ended with its cause, and nodes at rest keep their state. If the saved state cannot be read, or the run
// not be taken up, Adopt publishes why and the partition begins Offline; the error is one of the store. If ctx ends,
// Adopt returns its error, and leaves nodes, state and records to the next control: what was not heard by then says
// nothing.
// Call it once, after New.
func (p *Partition) Adopt(ctx context.Context) error {
	text, err := p.cfg.Store.Recall(savedStateKey)
	if err != nil {
		return err
	}
	a := adopter{Partition: p, text: text}
	for step := a.nextStep(); ; step = a.nextStep() {
		err := a.perform(ctx, step)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if a.noteDone(step.action, err); err == nil && step.action.isLast() {
			return errors.Join(p.records.closeOrphans(), p.records.countVerdicts())
		}
		if err != nil {
			p.log.Warn("a step failed while the partition of the last control was taken up", "step", step.action, "err", err)
		}
	}
}

// adopter is the shell of adoption: it performs the steps, and writes the results into the partition.
type adopter struct {
	*Partition
	adoption
	text              []byte // the state that the last control saved; nil: none
	participantConfig config.Completed
	view              *nodev1.View
}

// perform does one step, and writes its results into the adoption.
func (a *adopter) perform(ctx context.Context, step adoptStep) error {
	now := a.currentState()
	nodeSet, run := now.nodeSet, now.run
	switch step.action {
	case adoptRecall:
		return a.loadSavedState()
	case adoptRejoin:
		return a.rejoin(ctx)
	case adoptReadRecord:
		rec, err := a.cfg.Store.Get(a.saved.Run)
		if err == nil {
			a.record = proto.CloneOf(rec)
		}
		return err
	case adoptTakeUp:
		return a.takeUpRun(nodeSet)
	case adoptEndScheduler:
		nodeSet.EndScheduler(a.saved.Run)
		a.readStates(nodeSet)
	case adoptGiveUp:
		a.takeOver(ctx, run)
		a.readStates(nodeSet)
	case adoptConclude:
		a.changeRecord(func(r *ecsv1.Run) { noteEndUnknown(r, a.reports.Missing) })
		a.takeOver(ctx, run)
		a.readStates(nodeSet)
	case adoptPause: // the last control may have paused only some of the nodes
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTimeout())
		defer cancel()
		return run.Pause(ctx)
	case adoptClear:
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTimeout())
		defer cancel()
		return nodeSet.Clear(ctx)
	case adoptForget: // nodes that still build end their run when their lease runs out
		a.publishf(severityError, "fault", nodes.ControlName, "the partition of the last control could not be taken up: %v",
			a.failure)
		a.updateState(func(s *partitionState) { s.nodeSet, s.run, s.runRecord, s.loadedConfig = nil, nil, nil, nil })
		now.releaseNodes()
	case adoptOffline:
	case adoptNotReady:
		return a.runner.Adopt(fsm.NotReady)
	case adoptReady:
		return a.runner.Adopt(fsm.Ready)
	case adoptRunning:
		return a.continueRun(ctx, run, fsm.Running)
	case adoptPaused:
		return a.continueRun(ctx, run, fsm.Paused)
	case adoptStop:
		return a.resumeStop(ctx, run)
	}
	return nil
}

// loadSavedState decodes the state that the last control saved.
func (a *adopter) loadSavedState() error {
	m := &savedState{}
	if a.text == nil {
		return nil
	}
	if err := json.Unmarshal(a.text, m); err != nil || m.Configuration == "" {
		return err
	}
	l, participantConfig, view, err := m.decode()
	if err != nil {
		return err
	}
	a.saved, a.participantConfig, a.view = m, participantConfig, view
	a.updateState(func(s *partitionState) { s.loadedConfig, s.excluded, s.moves = l, m.Excluded, m.Moves })
	return nil
}

// rejoin connects to the nodes of the last view.
func (a *adopter) rejoin(ctx context.Context) error {
	nodeSet := nodes.NewNodeSet(a.members.nodeSetOptions(&a.participantConfig, memberNames(a.view)), a.participantConfig)
	ctx, cancel := context.WithTimeout(ctx, a.rejoinTimeout())
	defer cancel()
	err := nodeSet.Rejoin(ctx, a.view, a.saved.Linked, a.saved.Run != 0)
	a.updateState(func(s *partitionState) { s.nodeSet = nodeSet })
	a.publishf(severityWarning, "run", nodes.ControlName,
		"the control has come back and finds its partition, which was %s",
		a.saved.State)
	if a.saved.Run == 0 {
		a.readStates(nodeSet)
	}
	return err
}

// readStates watches the nodes and notes the state of each.
func (a *adopter) readStates(nodeSet *nodes.NodeSet) {
	nodeSet.EnsureWatched()
	a.nodeStates = make([]string, len(a.view.GetMembers()))
	for i, rep := range nodeSet.Reports() {
		a.nodeStates[i] = rep.GetStatus().GetState()
	}
}

// takeUpRun connects to the scheduler of the run, has the run go on without nodes that have gone, and collects the
// reports of nodes and scheduler.
func (a *adopter) takeUpRun(nodeSet *nodes.NodeSet) error {
	run, err := nodeSet.Adopt(a.saved.Run, a.record.GetRunKey())
	if err != nil {
		return err
	}
	if a.saved.Drift != nil {
		run.NoteDrift(*a.saved.Drift)
	}
	a.updateState(func(s *partitionState) { s.run, s.runRecord = run, a.record })
	run.LoseAbsent()
	nodeSet.EnsureWatched()
	reports := &ecsrun.Reports{
		SelfStop:        nodeSet.SelfStopCause() != nil,
		SchedulerPaused: core.State(run.LastStats().GetState()) == core.Paused,
	}
	for _, rep := range nodeSet.Reports() {
		if rep.GetRun() == a.saved.Run && rep.GetStatus().GetState() == fsm.Paused.String() {
			reports.Paused++
		}
	}
	reports.Running, reports.Missing = run.RunningAndMissing()
	a.reports = reports
	return nil
}

// takeOver starts the machine of the run with the record and the reports.
func (a *adopter) takeOver(ctx context.Context, run *nodes.Run) {
	in := ecsrun.Find(nodes.ControlName, foundRecord(a.currentState().runRecord), *a.reports)
	_ = a.conductor.conduct(ctx, run, in) // the actions of a Found input do not fail
}

// continueRun has a run go on, Running or Paused as it was found.
func (a *adopter) continueRun(ctx context.Context, run *nodes.Run, as fsm.State) error {
	if as == fsm.Running {
		run.BeginLast(ctx) // the last control may not have come to it
	}
	if err := a.runner.Adopt(as); err != nil {
		return err
	}
	if run.WasDegraded() {
		_ = a.runner.Degrade(fsm.Cause{Component: strings.Join(run.InactiveBuilders(), ", "),
			What: "a unit was lost or excluded in this run"})
	}
	a.takeOver(ctx, run)
	return nil
}

// resumeStop completes a stop that the last control, or the nodes by themselves, had begun.
func (a *adopter) resumeStop(ctx context.Context, run *nodes.Run) error {
	if alone := run.SelfStopCause(); alone != nil {
		a.changeRecord(func(r *ecsv1.Run) { noteSelfStop(r, alone, time.Now()) })
	}
	if err := a.runner.Adopt(fsm.Running); err != nil {
		return err
	}
	a.takeOver(ctx, run)
	return nil
}

// adoption decides what a restarted control does, and keeps what it has found so far. It is a pure core: nextStep
// returns a step; the shell performs it, writes the results into the fields, and calls noteDone; then again, until a
// step is the last one.
type adoption struct {
	saved      *savedState     // the state that the last control saved; nil before it is read, and if there is none
	record     *ecsv1.Run      // of the run that was not over; nil before it is read
	reports    *ecsrun.Reports // of nodes and scheduler on that run; nil before they are asked
	nodeStates []string        // last reported state of each node of the view; empty for a node without a report

	tried   [adoptActionCount]bool // the steps that were performed
	failure error                  // of a step that must not fail; nil: none has failed
}

// adoptAction is one thing that a control does when it comes back.
type adoptAction uint8

const (
	adoptRecall       adoptAction = iota // read the state that the last control saved
	adoptRejoin                          // connect to the nodes of the view, and ask each for a report
	adoptReadRecord                      // read the record of the run
	adoptTakeUp                          // connect to the scheduler, and ask it and the nodes for reports of the run
	adoptEndScheduler                    // the record of the run is closed: end its scheduler if it is still there
	adoptGiveUp                          // give the run up
	adoptConclude                        // close the run, which is over on its nodes, with the reports that there are
	adoptPause                           // pause the run on every node
	adoptClear                           // bring every node to rest
	adoptForget                          // publish the failure, and let nodes and run go
	adoptOffline                         // this and the following are last: the state in which the partition begins
	adoptNotReady
	adoptReady
	adoptRunning
	adoptPaused
	adoptStop // it is Running, and stops
	adoptActionCount
)

// String is for transcripts and logs.
func (a adoptAction) String() string {
	return [...]string{
		adoptRecall:       "the memory is read",
		adoptRejoin:       "the nodes are asked",
		adoptReadRecord:   "the record of the run is read",
		adoptTakeUp:       "the run is taken up",
		adoptEndScheduler: "the scheduler of the run is ended",
		adoptGiveUp:       "the run is given up",
		adoptConclude:     "the run is closed with what can be told",
		adoptPause:        "the run is paused",
		adoptClear:        "the nodes are brought to rest",
		adoptForget:       "what was found is let go",
		adoptOffline:      "the partition is Offline",
		adoptNotReady:     "the partition is NotReady",
		adoptReady:        "the partition is Ready",
		adoptRunning:      "the partition is Running",
		adoptPaused:       "the partition is Paused",
		adoptStop:         "the partition is Running, and stops",
	}[a]
}

// isLast says that nothing comes after it.
func (a adoptAction) isLast() bool { return a >= adoptOffline }

// mayFail says that the adoption goes on when the step fails: some nodes may not answer.
func (a adoptAction) mayFail() bool { return a == adoptRejoin || a == adoptPause || a == adoptClear }

// adoptStep is an action with its reason.
type adoptStep struct {
	action   adoptAction
	endCause string       // why the run ends; empty: it goes on
	cause    *fault.Fault // the fault for which the run is given up; nil: none
}

// noteDone notes that a step was performed, and its error; nil if it succeeded.
func (a *adoption) noteDone(did adoptAction, err error) {
	a.tried[did] = true
	if err != nil && !did.mayFail() {
		a.failure = err
	}
}

// nextStep returns the next step by what was found so far.
func (a *adoption) nextStep() adoptStep {
	switch {
	case a.tried[adoptForget]:
		return adoptStep{action: adoptOffline}
	case a.failure != nil:
		return adoptStep{action: adoptForget}
	case !a.tried[adoptRecall]:
		return adoptStep{action: adoptRecall}
	case a.saved == nil:
		return adoptStep{action: adoptOffline}
	case a.saved.View == nil: // the partition was loaded and not configured: configure connects to the nodes
		return adoptStep{action: adoptNotReady}
	case !a.tried[adoptRejoin]:
		return adoptStep{action: adoptRejoin}
	case a.saved.Run == 0 || a.tried[adoptEndScheduler] || a.tried[adoptGiveUp] || a.tried[adoptConclude]:
		return adoptStep{action: a.restStep()}
	case a.record == nil:
		return adoptStep{action: adoptReadRecord}
	case record.IsClosed(a.record):
		return adoptStep{action: adoptEndScheduler}
	case a.reports == nil:
		return adoptStep{action: adoptTakeUp}
	}
	return a.runStep()
}

// runStep is the step that starts the machine of the run with its first input. A run that is found paused is first
// paused on every node.
func (a *adoption) runStep() adoptStep {
	in := ecsrun.Find(nodes.ControlName, foundRecord(a.record), *a.reports)
	step := adoptStep{endCause: in.Reason, cause: in.Fault, action: adoptRunning}
	switch in.Kind {
	case ecsrun.FoundUnbegun, ecsrun.FoundStruck, ecsrun.FoundAbandoned:
		step.action = adoptGiveUp
	case ecsrun.FoundOver:
		step.action = adoptConclude
	case ecsrun.FoundEnding:
		step.action = adoptStop
	case ecsrun.FoundPaused:
		if step.action = adoptPause; a.tried[adoptPause] {
			step.action = adoptPaused
		}
	default:
	}
	return step
}

// foundRecord is the part of a run's record that the run's machine takes.
func foundRecord(r *ecsv1.Run) ecsrun.Found {
	return ecsrun.Found{
		Begun:  recordTime(r.GetStartDone()),
		Ending: recordTime(r.GetStopBegun()),
		End:    r.GetEnd(),
		Cause:  stateCause(r.GetCause()),
	}
}

// restStep is the step for nodes without a run: all are Ready, all NotReady, or they are brought to rest first. Nodes
// without a report do not count: start and configure go without them, or say that they are missing.
func (a *adoption) restStep() adoptAction {
	reporting := slices.DeleteFunc(slices.Clone(a.nodeStates), func(is string) bool { return is == "" })
	all := func(s fsm.State) bool {
		return len(reporting) > 0 && !slices.ContainsFunc(reporting, func(is string) bool { return is != s.String() })
	}
	switch {
	case a.tried[adoptClear] || all(fsm.NotReady):
		return adoptNotReady
	case all(fsm.Ready):
		return adoptReady
	}
	return adoptClear
}

// closeOrphan closes the record of a run that no control could take up.
func closeOrphan(r *ecsv1.Run) {
	doing := "going on"
	switch {
	case r.GetStartDone() == nil:
		doing = "beginning"
	case r.GetStopBegun() != nil:
		doing = "ending"
	}
	closeAbandoned(r, "the control was lost while the run was "+doing+", and its nodes could not be taken up again")
}
