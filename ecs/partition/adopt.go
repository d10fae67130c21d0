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

// memory is what a control that comes back must know. It is written before the nodes hear of a change that matters.
type memory struct {
	State         string          `json:"state"`
	Asked         string          `json:"asked"`         // the configuration as it was given
	Configuration string          `json:"configuration"` // for all members
	Taking        string          `json:"part"`          // for those who take part
	Names         []string        `json:"names"`
	Absent        []absentNode    `json:"absent,omitempty"`
	Excluded      map[string]bool `json:"excluded,omitempty"`
	View          json.RawMessage `json:"view,omitempty"`
	Run           uint32          `json:"run,omitempty"`    // that is not over
	Linked        bool            `json:"linked,omitempty"` // the nodes have the links of the view
}

const memoryKey = "partition"

// remember writes down where the partition is.
func (p *Partition) remember() {
	m := memory{State: p.runner.Status().State.String()}
	p.mu.Lock()
	m.Excluded = p.excluded
	if l := p.loaded; l != nil {
		m.Asked, m.Configuration, m.Names, m.Absent = string(l.asked.Effective()), string(l.cfg.Effective()), l.names,
			l.absent
	}
	if p.crew != nil {
		cfg := p.crew.Configuration()
		m.Linked = p.crew.Linked()
		m.Taking = string(cfg.Effective())
		if v := p.crew.View(); v != nil {
			m.View, _ = protojson.Marshal(v)
		}
	}
	if p.rec != nil {
		m.Run = p.rec.GetNumber()
	}
	text, err := json.Marshal(m)
	p.mu.Unlock()
	if err != nil {
		p.log.Error("the partition would not be found again", "err", err)
		return
	}
	p.unwritten.remember(text)
}

// Adopt finds what an earlier control had: a run that goes on is taken up, one that was beginning is ended with
// its cause, and nodes at rest are where they were. What cannot be understood or taken up any more is said, and the
// partition begins Offline; an error is one of the store. Call it once, after New.
func (p *Partition) Adopt(ctx context.Context) error {
	text, err := p.cfg.Store.Recall(memoryKey)
	if err != nil {
		return err
	}
	a := adopter{Partition: p, text: text}
	for step := a.next(); ; step = a.next() {
		err := a.carryOut(ctx, step)
		if a.took(step.do, err); err == nil && step.do.last() {
			return errors.Join(p.closeOrphans(), p.count())
		}
		if err != nil {
			p.log.Warn("a control that comes back could not do all of it", "step", step.do, "err", err)
		}
	}
}

// adopter does what adoption says. What it finds stands in the partition.
type adopter struct {
	*Partition
	adoption
	text   []byte // what the last control wrote down; nil: nothing
	taking config.Config
	view   *nodev1.View
}

// carryOut does one step, and fills in what it finds.
func (a *adopter) carryOut(ctx context.Context, step adoptStep) error {
	now := a.now()
	crew, run := now.crew, now.run
	switch step.do {
	case adoptRecall:
		return a.recall()
	case adoptAsk:
		return a.rejoin(ctx)
	case adoptRead:
		rec, err := a.cfg.Store.Get(a.memory.Run)
		if err == nil {
			a.record = proto.CloneOf(rec)
		}
		return err
	case adoptTakeUp:
		return a.takeUp(crew)
	case adoptEndScheduler:
		crew.EndScheduler(a.memory.Run)
		a.look(crew)
	case adoptGiveUp:
		a.giveUp(run, step)
		a.look(crew)
	case adoptConclude:
		run.EndFor(step.end)
		a.change(func(r *ecsv1.Run) { untold(r, a.told.missing) })
		a.stopping(step.end, nil)
		a.drop(run, func() *nodes.Report { return run.Conclude(a.told.missing) })
		a.look(crew)
	case adoptPause: // what was under way may have been half of it
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTime())
		defer cancel()
		return run.Pause(ctx)
	case adoptClear:
		ctx, cancel := context.WithTimeout(a.ctx, a.rejoinTime())
		defer cancel()
		return crew.Clear(ctx)
	case adoptForget: // nodes that still build end their run by themselves
		a.say(bad, "fault", nodes.Name, "what the last control had could not be taken up: %v", a.failed)
		a.set(func(s *standing) { s.crew, s.run, s.rec, s.loaded = nil, nil, nil, nil })
		now.release()
	case adoptOffline:
	case adoptNotReady:
		return a.runner.Adopt(fsm.NotReady)
	case adoptReady:
		return a.runner.Adopt(fsm.Ready)
	case adoptRunning:
		return a.goOn(run, fsm.Running)
	case adoptPaused:
		return a.goOn(run, fsm.Paused)
	case adoptStop:
		return a.stopAgain(step.end)
	}
	return nil
}

// recall reads what the last control wrote down.
func (a *adopter) recall() error {
	m := &memory{}
	if a.text == nil {
		return nil
	}
	if err := json.Unmarshal(a.text, m); err != nil || m.Configuration == "" {
		return err
	}
	l, taking, view, err := m.read()
	if err != nil {
		return err
	}
	a.memory, a.taking, a.view = m, taking, view
	a.set(func(s *standing) { s.loaded, s.excluded = l, m.Excluded })
	return nil
}

// rejoin meets the nodes of the last view.
func (a *adopter) rejoin(ctx context.Context) error {
	crew := nodes.NewCrew(a.options(&a.taking, memberNames(a.view)), a.taking)
	ctx, cancel := context.WithTimeout(ctx, a.rejoinTime())
	defer cancel()
	err := crew.Rejoin(ctx, a.view, a.memory.Linked)
	a.set(func(s *standing) { s.crew = crew })
	a.say(warning, "run", nodes.Name, "the control has come back and finds its partition, which was %s", a.memory.State)
	if a.memory.Run == 0 {
		a.look(crew)
	}
	return err
}

// look fills in where the nodes are, once they are watched.
func (a *adopter) look(crew *nodes.Crew) {
	crew.Attend()
	a.states = make([]string, len(a.view.GetMembers()))
	for i, rep := range crew.Reports() {
		a.states[i] = rep.GetStatus().GetState()
	}
}

// takeUp takes up the run, and hears what nodes and scheduler tell of it.
func (a *adopter) takeUp(crew *nodes.Crew) error {
	run, err := crew.Adopt(a.memory.Run, a.record.GetRunKey(), a.record.GetStartDone().AsTime())
	if err != nil {
		return err
	}
	a.set(func(s *standing) { s.run, s.rec = run, a.record })
	what := &told{
		alone:           crew.StoppedByThemselves(),
		schedulerPaused: tagnet.State(run.LastStats().GetState()) == tagnet.Paused,
	}
	for _, rep := range crew.Reports() {
		if rep.GetRun() == a.memory.Run && rep.GetStatus().GetState() == fsm.Paused.String() {
			what.paused++
		}
	}
	what.going, what.missing = run.Tellers()
	a.told = what
	return nil
}

// giveUp gives a run up that cannot go on, for a fault or because somebody wanted it so.
func (a *adopter) giveUp(run *nodes.Run, step adoptStep) {
	run.EndFor(step.end)
	var struck *ecsv1.Cause
	dropped := run.Interrupt
	if step.cause != nil {
		struck = inRecord(*step.cause, step.end, timestamppb.Now())
		dropped = func() *nodes.Report { return run.GiveUp(&fault.Error{Fault: *step.cause}) }
	}
	a.stopping(step.end, struck)
	a.drop(run, dropped)
}

// goOn has a run go on as it was found.
func (a *adopter) goOn(run *nodes.Run, as fsm.State) error {
	if err := a.runner.Adopt(as); err != nil {
		return err
	}
	if run.Degraded() {
		_ = a.runner.Degrade(fsm.Cause{Component: strings.Join(run.Out(), ", "),
			What: "a unit was lost or excluded in this run"})
	}
	a.say(info, "run", ownName, "run %d goes on", run.Number())
	a.wg.Go(func() { a.watch(run) })
	return nil
}

// stopAgain carries a stop out that was begun, or that the nodes began.
func (a *adopter) stopAgain(end string) error {
	if alone := a.told.alone; alone != nil {
		a.change(func(r *ecsv1.Run) { endedAlone(r, alone, time.Now()) })
	}
	a.set(func(s *standing) { s.asked.end = end })
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
	now := p.now().rec
	for _, r := range open.Runs {
		if r.GetNumber() == now.GetNumber() {
			continue
		}
		rec, err := p.cfg.Store.Get(r.GetNumber())
		if err != nil {
			return err
		}
		orphaned(rec)
		p.unwritten.record(rec)
		p.misses(rec)
	}
	return nil
}

// rejoinTime is how long nodes may take to answer a control that has come back: it does not start those that are gone.
func (p *Partition) rejoinTime() time.Duration { return p.within(2 * cmp.Or(p.cfg.JoinTime, joinTime)) }

func memberNames(v *nodev1.View) []string {
	names := make([]string, len(v.GetMembers()))
	for i, m := range v.GetMembers() {
		names[i] = m.GetName()
	}
	return names
}

// read turns the memory into what it stands for.
func (m *memory) read() (*loaded, config.Config, *nodev1.View, error) {
	view := &nodev1.View{}
	cfg, err := config.Recorded("the configuration of the last control", []byte(m.Configuration))
	asked, taking := cfg, cfg
	if err == nil {
		asked, err = config.Recorded("the configuration that the last control was given", []byte(m.Asked))
	}
	if err == nil && m.View != nil {
		taking, err = config.Recorded("the configuration of the last view", []byte(m.Taking))
	}
	if err == nil && m.View != nil {
		err = protojson.Unmarshal(m.View, view)
	}
	return &loaded{
		asked:  asked,
		cfg:    cfg,
		names:  m.Names,
		absent: m.Absent,
	}, taking, view, err
}
