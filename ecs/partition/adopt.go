package partition

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Adopt finds what an earlier control had: a run that goes on is taken up, one that was beginning is ended with
// its cause, and nodes at rest are where they were. What cannot be understood or taken up any more is said, and the
// partition begins Offline; an error is one of the store. Call it once, after New.
func (p *Partition) Adopt(ctx context.Context) error {
	text, err := p.cfg.Store.Recall(savedStateKey)
	if err != nil {
		return err
	}
	a := adopter{Partition: p, text: text}
	for step := a.nextStep(); ; step = a.nextStep() {
		err := a.perform(ctx, step)
		if a.noteDone(step.action, err); err == nil && step.action.isLast() {
			return errors.Join(p.records.closeOrphans(), p.records.countVerdicts())
		}
		if err != nil {
			p.log.Warn("a control that comes back could not do all of it", "step", step.action, "err", err)
		}
	}
}

// adopter does what adoption says. What it finds stands in the partition.
type adopter struct {
	*Partition
	adoption
	text              []byte // what the last control wrote down; nil: nothing
	participantConfig config.Config
	view              *nodev1.View
}

// perform does one step, and fills in what it finds.
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
	case adoptPause: // what was under way may have been half of it
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTimeout())
		defer cancel()
		return run.Pause(ctx)
	case adoptClear:
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTimeout())
		defer cancel()
		return nodeSet.Clear(ctx)
	case adoptForget: // nodes that still build end their run by themselves
		a.publishf(severityError, "fault", nodes.ControlName, "what the last control had could not be taken up: %v",
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

// loadSavedState reads what the last control wrote down.
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
	a.updateState(func(s *partitionState) { s.loadedConfig, s.excluded = l, m.Excluded })
	return nil
}

// rejoin connects to the nodes of the last view.
func (a *adopter) rejoin(ctx context.Context) error {
	nodeSet := nodes.NewNodeSet(a.members.nodeSetOptions(&a.participantConfig, memberNames(a.view)), a.participantConfig)
	ctx, cancel := context.WithTimeout(ctx, a.rejoinTimeout())
	defer cancel()
	err := nodeSet.Rejoin(ctx, a.view, a.saved.Linked)
	a.updateState(func(s *partitionState) { s.nodeSet = nodeSet })
	a.publishf(severityWarning, "run", nodes.ControlName,
		"the control has come back and finds its partition, which was %s",
		a.saved.State)
	if a.saved.Run == 0 {
		a.readStates(nodeSet)
	}
	return err
}

// readStates fills in where the nodes are, once they are watched.
func (a *adopter) readStates(nodeSet *nodes.NodeSet) {
	nodeSet.EnsureWatched()
	a.nodeStates = make([]string, len(a.view.GetMembers()))
	for i, rep := range nodeSet.Reports() {
		a.nodeStates[i] = rep.GetStatus().GetState()
	}
}

// takeUpRun takes up the run, and hears what nodes and scheduler tell of it.
func (a *adopter) takeUpRun(nodeSet *nodes.NodeSet) error {
	run, err := nodeSet.Adopt(a.saved.Run, a.record.GetRunKey())
	if err != nil {
		return err
	}
	a.updateState(func(s *partitionState) { s.run, s.runRecord = run, a.record })
	reports := &ecsrun.Reports{
		SelfStop:        nodeSet.SelfStopCause() != nil,
		SchedulerPaused: tagnet.State(run.LastStats().GetState()) == tagnet.Paused,
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

// takeOver starts the machine of the run with what was found of it.
func (a *adopter) takeOver(ctx context.Context, run *nodes.Run) {
	in := ecsrun.Find(nodes.ControlName, foundRecord(a.currentState().runRecord), *a.reports)
	_ = a.conductor.conduct(ctx, run, in) // what is done here does not fail
}

// continueRun has a run go on as it was found.
func (a *adopter) continueRun(ctx context.Context, run *nodes.Run, as fsm.State) error {
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

// resumeStop carries a stop out that was begun, or that the nodes began.
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
