package partition

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// savedState is what a control that comes back must know. It is written before the nodes hear of a change that matters.
type savedState struct {
	State                    string          `json:"state"`
	OriginalConfiguration    string          `json:"asked"`         // the configuration as it was given
	Configuration            string          `json:"configuration"` // for all members
	ParticipantConfiguration string          `json:"part"`          // for those who take part
	Names                    []string        `json:"names"`
	Absent                   []absentNode    `json:"absent,omitempty"`
	Excluded                 map[string]bool `json:"excluded,omitempty"`
	View                     json.RawMessage `json:"view,omitempty"`
	Run                      uint32          `json:"run,omitempty"`    // that is not over
	Linked                   bool            `json:"linked,omitempty"` // the nodes have the links of the view
}

const savedStateKey = "partition"

// saveState writes down where the partition is.
func (p *Partition) saveState() {
	m := savedState{State: p.runner.Status().State.String()}
	p.mu.Lock()
	m.Excluded = p.excluded
	if l := p.loadedConfig; l != nil {
		m.OriginalConfiguration, m.Configuration = string(l.original.Effective()), string(l.cfg.Effective())
		m.Names, m.Absent = l.names, l.absent
	}
	if p.crew != nil {
		cfg := p.crew.Configuration()
		m.Linked = p.crew.Linked()
		m.ParticipantConfiguration = string(cfg.Effective())
		if v := p.crew.View(); v != nil {
			m.View, _ = protojson.Marshal(v)
		}
	}
	if p.runRecord != nil {
		m.Run = p.runRecord.GetNumber()
	}
	text, err := json.Marshal(m)
	p.mu.Unlock()
	if err != nil {
		p.log.Error("the partition would not be found again", "err", err)
		return
	}
	p.pendingWrites.saveState(text)
}

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
			return errors.Join(p.closeOrphans(), p.countVerdicts())
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
	crew, run := now.crew, now.run
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
		return a.takeUpRun(crew)
	case adoptEndScheduler:
		crew.EndScheduler(a.saved.Run)
		a.readStates(crew)
	case adoptGiveUp:
		a.giveUpRun(run, step)
		a.readStates(crew)
	case adoptConclude:
		run.SetEndCause(step.endCause)
		a.changeRecord(func(r *ecsv1.Run) { noteEndUnknown(r, a.reports.missingReporters) })
		a.noteStopping(step.endCause, nil)
		a.dropRun(run, func() *nodes.Report { return run.Conclude(a.reports.missingReporters) })
		a.readStates(crew)
	case adoptPause: // what was under way may have been half of it
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTimeout())
		defer cancel()
		return run.Pause(ctx)
	case adoptClear:
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTimeout())
		defer cancel()
		return crew.Clear(ctx)
	case adoptForget: // nodes that still build end their run by themselves
		a.publishf(severityError, "fault", nodes.ControlName, "what the last control had could not be taken up: %v",
			a.failure)
		a.updateState(func(s *partitionState) { s.crew, s.run, s.runRecord, s.loadedConfig = nil, nil, nil, nil })
		now.releaseNodes()
	case adoptOffline:
	case adoptNotReady:
		return a.runner.Adopt(fsm.NotReady)
	case adoptReady:
		return a.runner.Adopt(fsm.Ready)
	case adoptRunning:
		return a.continueRun(run, fsm.Running)
	case adoptPaused:
		return a.continueRun(run, fsm.Paused)
	case adoptStop:
		return a.resumeStop(step.endCause)
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
	crew := nodes.NewCrew(a.crewOptions(&a.participantConfig, memberNames(a.view)), a.participantConfig)
	ctx, cancel := context.WithTimeout(ctx, a.rejoinTimeout())
	defer cancel()
	err := crew.Rejoin(ctx, a.view, a.saved.Linked)
	a.updateState(func(s *partitionState) { s.crew = crew })
	a.publishf(severityWarning, "run", nodes.ControlName,
		"the control has come back and finds its partition, which was %s",
		a.saved.State)
	if a.saved.Run == 0 {
		a.readStates(crew)
	}
	return err
}

// readStates fills in where the nodes are, once they are watched.
func (a *adopter) readStates(crew *nodes.Crew) {
	crew.EnsureWatched()
	a.nodeStates = make([]string, len(a.view.GetMembers()))
	for i, rep := range crew.Reports() {
		a.nodeStates[i] = rep.GetStatus().GetState()
	}
}

// takeUpRun takes up the run, and hears what nodes and scheduler tell of it.
func (a *adopter) takeUpRun(crew *nodes.Crew) error {
	run, err := crew.Adopt(a.saved.Run, a.record.GetRunKey(), a.record.GetStartDone().AsTime())
	if err != nil {
		return err
	}
	a.updateState(func(s *partitionState) { s.run, s.runRecord = run, a.record })
	reports := &runReports{
		selfStop:        crew.SelfStopCause(),
		schedulerPaused: tagnet.State(run.LastStats().GetState()) == tagnet.Paused,
	}
	for _, rep := range crew.Reports() {
		if rep.GetRun() == a.saved.Run && rep.GetStatus().GetState() == fsm.Paused.String() {
			reports.pausedNodes++
		}
	}
	reports.runningNodes, reports.missingReporters = run.RunningAndMissing()
	a.reports = reports
	return nil
}

// giveUpRun gives a run up that cannot go on, for a fault or because somebody wanted it so.
func (a *adopter) giveUpRun(run *nodes.Run, step adoptStep) {
	run.SetEndCause(step.endCause)
	var struck *ecsv1.Cause
	dropped := run.Interrupt
	if step.cause != nil {
		struck = recordCause(*step.cause, step.endCause, timestamppb.Now())
		dropped = func() *nodes.Report { return run.GiveUp(&fault.Error{Fault: *step.cause}) }
	}
	a.noteStopping(step.endCause, struck)
	a.dropRun(run, dropped)
}

// continueRun has a run go on as it was found.
func (a *adopter) continueRun(run *nodes.Run, as fsm.State) error {
	if err := a.runner.Adopt(as); err != nil {
		return err
	}
	if run.WasDegraded() {
		_ = a.runner.Degrade(fsm.Cause{Component: strings.Join(run.InactiveBuilders(), ", "),
			What: "a unit was lost or excluded in this run"})
	}
	a.publishf(severityInfo, "run", partitionComponent, "run %d goes on", run.Number())
	a.wg.Go(func() { a.watchRun(run) })
	return nil
}

// resumeStop carries a stop out that was begun, or that the nodes began.
func (a *adopter) resumeStop(end string) error {
	if alone := a.reports.selfStop; alone != nil {
		a.changeRecord(func(r *ecsv1.Run) { noteSelfStop(r, alone, time.Now()) })
	}
	a.updateState(func(s *partitionState) { s.pendingCommand.endCause = end })
	if err := a.runner.Adopt(fsm.Running); err != nil {
		return err
	}
	return a.runner.Submit(fsm.Stop)
}

// closeOrphans gives every run that nobody builds any more its end.
func (p *Partition) closeOrphans() error {
	open, err := p.cfg.Store.OpenRuns()
	if err != nil {
		return err
	}
	now := p.currentState().runRecord
	for _, r := range open.Runs {
		if r.GetNumber() == now.GetNumber() {
			continue
		}
		rec, err := p.cfg.Store.Get(r.GetNumber())
		if err != nil {
			return err
		}
		closeOrphan(rec)
		p.pendingWrites.putRecord(rec)
		p.noteUnread(rec)
	}
	return nil
}

// rejoinTimeout is how long nodes may take to answer a control that has come back: it does not start those that are
// gone.
func (p *Partition) rejoinTimeout() time.Duration {
	return p.timeoutFor(2 * cmp.Or(p.cfg.JoinTimeout, defaultJoinTimeout))
}

func memberNames(v *nodev1.View) []string {
	names := make([]string, len(v.GetMembers()))
	for i, m := range v.GetMembers() {
		names[i] = m.GetName()
	}
	return names
}

// decode turns the saved state into what it stands for.
func (m *savedState) decode() (*loadedConfig, config.Config, *nodev1.View, error) {
	view := &nodev1.View{}
	cfg, err := config.ParseRecorded("the configuration of the last control", []byte(m.Configuration))
	original, participantConfig := cfg, cfg
	if err == nil {
		original, err = config.ParseRecorded("the configuration that the last control was given",
			[]byte(m.OriginalConfiguration))
	}
	if err == nil && m.View != nil {
		participantConfig, err = config.ParseRecorded("the configuration of the last view",
			[]byte(m.ParticipantConfiguration))
	}
	if err == nil && m.View != nil {
		err = protojson.Unmarshal(m.View, view)
	}
	return &loadedConfig{
		original: original,
		cfg:      cfg,
		names:    m.Names,
		absent:   m.Absent,
	}, participantConfig, view, err
}
