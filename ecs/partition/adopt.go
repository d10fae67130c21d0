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
	"ringlet/ecs/record"
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
	Absent        []Absent        `json:"absent,omitempty"`
	Excluded      map[string]bool `json:"excluded,omitempty"`
	View          json.RawMessage `json:"view,omitempty"`
	Run           uint32          `json:"run,omitempty"`     // that is not over
	Abandon       bool            `json:"abandon,omitempty"` // and somebody has given it up
	Stale         bool            `json:"stale,omitempty"`   // the nodes have given up their links
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
		m.Stale = !p.crew.Linked()
		m.Taking = string(cfg.Effective())
		if v := p.crew.View(); v != nil {
			m.View, _ = protojson.Marshal(v)
		}
	}
	if p.rec != nil {
		m.Run, m.Abandon = p.rec.GetNumber(), p.asked.abandon
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
	if err := p.recall(ctx, text); err != nil {
		p.say(bad, "fault", nodes.Name, "what the last control had could not be taken up: %v", err)
		p.forget()
	}
	return errors.Join(p.closeOrphans(), p.count())
}

// recall goes on from what is remembered.
func (p *Partition) recall(ctx context.Context, text []byte) error {
	var m memory
	if text == nil {
		return nil
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Configuration == "" {
		return err
	}
	return p.adopt(ctx, &m)
}

// forget lets go of what could not be taken up. Nodes that still build end their run by themselves.
func (p *Partition) forget() {
	before := p.now()
	p.set(func(s *standing) { s.crew, s.run, s.rec, s.loaded = nil, nil, nil, nil })
	before.release()
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
		abandoned(rec, "the control was lost while the run was "+phase(rec)+", and its nodes could not be taken up again")
		p.unwritten.record(rec)
		p.misses(rec)
	}
	return nil
}

// phase is what a run was doing by its record.
func phase(r *ecsv1.Run) string {
	switch {
	case r.GetStartDone() == nil:
		return "beginning"
	case r.GetStopBegun() != nil:
		return "ending"
	}
	return "going on"
}

// adopt goes on with the partition of an earlier control.
func (p *Partition) adopt(ctx context.Context, m *memory) error {
	l, taking, view, err := m.read()
	if err != nil {
		return err
	}
	p.set(func(s *standing) { s.loaded, s.excluded = l, m.Excluded })
	if m.View == nil { // it was loaded and not configured: configure meets the nodes
		return p.runner.Adopt(fsm.NotReady)
	}
	crew := nodes.NewCrew(p.options(&taking, memberNames(view)), taking)
	ctx, cancel := context.WithTimeout(ctx, p.rejoinTime())
	defer cancel()
	met := crew.Rejoin(ctx, view, !m.Stale)
	p.set(func(s *standing) { s.crew = crew })
	p.say(warning, "run", nodes.Name, "the control has come back and finds its partition, which was %s", m.State)
	if m.Run != 0 {
		return p.adoptRun(m, met)
	}
	return p.settle(crew, met)
}

// rejoinTime is how long nodes may take to answer a control that has come back: it does not start those that are gone.
func (p *Partition) rejoinTime() time.Duration { return 2 * cmp.Or(p.cfg.JoinTime, joinTime) }

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

// settle finds where nodes without a run are: all Ready, all NotReady, or to be put to rest.
func (p *Partition) settle(crew *nodes.Crew, met error) error {
	crew.Attend()
	state := ""
	for _, rep := range crew.Reports() {
		st := rep.GetStatus().GetState()
		if state != "" && st != state {
			state = "mixed"
			break
		}
		state = st
	}
	switch {
	case met == nil && state == fsm.Ready.String():
		return p.runner.Adopt(fsm.Ready)
	case met == nil && state == fsm.NotReady.String():
		return p.runner.Adopt(fsm.NotReady)
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.rejoinTime())
	defer cancel()
	if err := crew.Clear(ctx); err != nil || met != nil {
		p.log.Warn("not every node has come to rest", "err", errors.Join(met, err))
	}
	return p.runner.Adopt(fsm.NotReady)
}

// adoptRun takes up a run whose nodes go on, or gives it its end.
func (p *Partition) adoptRun(m *memory, met error) error {
	rec, err := p.cfg.Store.Get(m.Run)
	if err != nil {
		return err
	}
	rec = proto.CloneOf(rec)
	crew := p.now().crew
	if record.Closed(rec) {
		crew.EndScheduler(m.Run)
		return p.settle(crew, met)
	}
	run, err := crew.Adopt(m.Run, rec.GetRunKey(), rec.GetStartDone().AsTime())
	if err != nil {
		return err
	}
	p.set(func(s *standing) { s.run, s.rec = run, rec })
	paused := 0
	for _, rep := range crew.Reports() {
		if rep.GetRun() == m.Run && rep.GetStatus().GetState() == fsm.Paused.String() {
			paused++
		}
	}
	alone := crew.StoppedByThemselves()
	going, missing := run.Tellers()
	what := find(rec, m.Abandon, told{
		alone:           alone != nil,
		going:           going,
		missing:         len(missing) > 0,
		paused:          paused,
		schedulerPaused: tagnet.State(run.LastStats().GetState()) == tagnet.Paused,
	})
	if met != nil {
		p.log.Warn("not every node of the run answers", "err", met)
	}
	return p.goOn(what, run, rec, alone)
}

// goOn does with a run what has been found.
func (p *Partition) goOn(what found, run *nodes.Run, rec *ecsv1.Run, alone *nodev1.Cause) error {
	switch what {
	case foundOver: // seen before
		return nil
	case foundBeginning:
		return p.giveUp(run, nodes.EndControlLost, &fault.Error{Fault: fault.Fault{
			Component: nodes.Name, What: "the control was lost while the run was beginning", Evidence: "seen when it came back",
		}})
	case foundFailed:
		return p.giveUp(run, nodes.EndFault, &fault.Error{Fault: fault.Told(rec.GetCause())})
	case foundAbandoned:
		return p.giveUp(run, rec.GetEnd(), nil)
	case foundAlone:
		p.change(func(r *ecsv1.Run) { endedAlone(r, alone, time.Now()) })
		return p.stopAgain(nodes.EndControlLost)
	case foundOverSince:
		_, missing := run.Tellers()
		return p.conclude(run, missing)
	case foundEnding:
		return p.stopAgain(rec.GetEnd())
	case foundPaused:
		ctx, cancel := context.WithTimeout(p.ctx, p.rejoinTime())
		defer cancel()
		if err := run.Pause(ctx); err != nil { // what was under way may have been half of it
			p.log.Warn("not every node of a paused run is at rest", "err", err)
		}
		if err := p.runner.Adopt(fsm.Paused); err != nil {
			return err
		}
	case foundRunning:
		if err := p.runner.Adopt(fsm.Running); err != nil {
			return err
		}
	}
	if run.Degraded() {
		_ = p.runner.Degrade(fsm.Cause{Component: strings.Join(run.Out(), ", "),
			What: "a unit was lost or excluded in this run"})
	}
	p.say(info, "run", Name, "run %d goes on", run.Number())
	p.wg.Go(func() { p.watch(run) })
	return nil
}

// stopAgain carries a stop out that was begun, or that the nodes began.
func (p *Partition) stopAgain(end string) error {
	p.set(func(s *standing) { s.asked.end = end })
	if err := p.runner.Adopt(fsm.Running); err != nil {
		return err
	}
	return p.runner.Submit(fsm.Stop)
}

// conclude closes a run that was over when the control came back, with what can still be told of it.
func (p *Partition) conclude(run *nodes.Run, missing []string) error {
	end := p.now().rec.GetEnd()
	if end == "" {
		end = nodes.EndControlLost
	}
	run.EndFor(end)
	p.change(func(r *ecsv1.Run) { untold(r, missing) })
	p.stopping(end, nil)
	p.drop(run, func() *nodes.Report { return run.Conclude(missing) })
	return p.settle(p.now().crew, nil)
}

// giveUp gives a run up that cannot go on, for a fault or because somebody wanted it so, and settles its nodes.
func (p *Partition) giveUp(run *nodes.Run, end string, fault *fault.Error) error {
	run.EndFor(end)
	var struck *ecsv1.Cause
	dropped := run.Interrupt
	if fault != nil {
		struck = inRecord(fault.Fault, end, timestamppb.Now())
		dropped = func() *nodes.Report { return run.GiveUp(fault) }
	}
	p.stopping(end, struck)
	p.drop(run, dropped)
	return p.settle(p.now().crew, nil)
}
