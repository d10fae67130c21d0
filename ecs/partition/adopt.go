package partition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/fsm"
	"ringlet/internal/config"
	"ringlet/internal/control"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// memory is what a control that comes back must know. It is written before the nodes hear of a change that matters.
type memory struct {
	State         string          `json:"state"`
	Asked         string          `json:"asked"`         // the configuration as it was given
	Configuration string          `json:"configuration"` // for all members
	Part          string          `json:"part"`          // for those who take part
	Names         []string        `json:"names"`
	Absent        []Absent        `json:"absent,omitempty"`
	Excluded      map[string]bool `json:"excluded,omitempty"`
	View          json.RawMessage `json:"view,omitempty"`
	Run           uint32          `json:"run,omitempty"` // that is not over
	Stale         bool            `json:"stale,omitempty"`
}

const memoryKey = "partition"

// remember writes down where the partition is.
func (p *Partition) remember() {
	p.mu.Lock()
	m := memory{State: p.state.String(), Excluded: p.excluded, Stale: p.stale}
	if l := p.loaded; l != nil {
		m.Asked, m.Configuration, m.Names, m.Absent = string(l.asked.Effective()), string(l.cfg.Effective()), l.names, l.absent
	}
	if p.crew != nil {
		cfg := p.crew.Configuration()
		m.Part = string(cfg.Effective())
		if v := p.crew.View(); v != nil {
			m.View, _ = protojson.Marshal(v)
		}
	}
	if p.rec != nil {
		m.Run = p.rec.GetNumber()
	}
	text, err := json.Marshal(m)
	p.mu.Unlock()
	if err == nil {
		err = p.cfg.Store.Remember(memoryKey, text)
	}
	if err != nil {
		p.log.Error("the partition would not be found again", "err", err)
	}
}

// Adopt finds what an earlier control has left: a run that goes on is taken up, one that was beginning is ended with its cause, and
// nodes at rest are where they were. Call it once, after New.
func (p *Partition) Adopt(ctx context.Context) error {
	text, err := p.cfg.Store.Recall(memoryKey)
	if err != nil {
		return err
	}
	var m memory
	if text != nil {
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("what the last control has left cannot be read: %w", err)
		}
	}
	if m.Configuration != "" && m.View != nil {
		err = p.adopt(ctx, &m)
	}
	return errors.Join(err, p.closeOrphans(), p.count())
}

// closeOrphans gives every run that nobody builds any more its end.
func (p *Partition) closeOrphans() error {
	open, err := p.cfg.Store.OpenRuns()
	if err != nil {
		return err
	}
	now := p.record()
	for _, r := range open.Runs {
		if r.GetNumber() == now.GetNumber() {
			continue
		}
		rec, err := p.cfg.Store.Get(r.GetNumber())
		if err != nil {
			return err
		}
		abandoned(rec, "the control was lost while the run was "+phase(rec)+", and its nodes could not be taken up again")
		if err := p.cfg.Store.Put(rec); err != nil {
			return err
		}
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
	l, part, view, err := m.read()
	if err != nil {
		return err
	}
	crew := control.NewCrew(p.options(&part, memberNames(view)), part)
	ctx, cancel := context.WithTimeout(ctx, rejoinTime)
	defer cancel()
	met := crew.Rejoin(ctx, view)
	p.mu.Lock()
	p.loaded, p.crew, p.stale = l, crew, m.Stale
	if m.Excluded != nil {
		p.excluded = m.Excluded
	}
	p.mu.Unlock()
	p.tell(&ecsv1.Event{
		Kind: "run", Component: control.Name, Severity: ecsv1.Severity_SEVERITY_WARNING,
		Text: fmt.Sprintf("the control has come back and finds its partition, which was %s", m.State),
	})
	if m.Run != 0 {
		return p.adoptRun(m.Run, met)
	}
	return p.settle(crew, met)
}

// rejoinTime is how long nodes may take to answer a control that has come back.
const rejoinTime = 10 * time.Second

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
	cfg, err := config.Parse("the configuration of the last control", []byte(m.Configuration))
	asked, part := cfg, cfg
	if err == nil {
		asked, err = config.Parse("the configuration that the last control was given", []byte(m.Asked))
	}
	if err == nil {
		part, err = config.Parse("the configuration of the last view", []byte(m.Part))
	}
	if err == nil {
		err = protojson.Unmarshal(m.View, view)
	}
	return &loaded{asked: asked, cfg: cfg, names: m.Names, absent: m.Absent}, part, view, err
}

// settle finds where nodes without a run are: all Ready, all NotReady, or to be put to rest.
func (p *Partition) settle(crew *control.Crew, met error) error {
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
	ctx, cancel := context.WithTimeout(p.ctx, rejoinTime)
	defer cancel()
	if err := crew.Clear(ctx); err != nil || met != nil {
		p.log.Warn("not every node has come to rest", "err", errors.Join(met, err))
	}
	return p.runner.Adopt(fsm.NotReady)
}

// adoptRun takes up a run whose nodes go on, or ends it.
func (p *Partition) adoptRun(number uint32, met error) error {
	rec, err := p.cfg.Store.Get(number)
	if err != nil {
		return err
	}
	rec = proto.CloneOf(rec)
	p.mu.Lock()
	crew := p.crew
	p.rec = rec
	p.mu.Unlock()
	states := map[string]int{}
	for _, rep := range crew.Reports() {
		if rep.GetRun() == number {
			states[rep.GetStatus().GetState()]++
		}
	}
	n := len(crew.Names())
	run, err := crew.Adopt(number, rec.GetStartDone().AsTime())
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.run = run
	p.mu.Unlock()
	switch {
	case rec.GetStartDone() == nil:
		p.lostIt(run, "the control was lost while the run was beginning")
		return p.settle(crew, nil)
	case crew.StoppedByThemselves() != "":
		p.mu.Lock()
		p.asked.end = control.EndControlLost
		p.rec.Cause = &ecsv1.Cause{
			Component: control.Name, What: "the control was gone for longer than the nodes build on without it", Code: control.EndControlLost,
			Evidence: crew.StoppedByThemselves(), At: timestamppb.Now(),
		}
		p.mu.Unlock()
		if err := p.runner.Adopt(fsm.Running); err != nil {
			return err
		}
		return p.runner.Submit(fsm.Stop)
	case states[fsm.Paused.String()] == n:
		err = p.runner.Adopt(fsm.Paused)
	case rec.GetStopBegun() != nil:
		p.mu.Lock()
		p.asked.end = rec.GetEnd()
		p.mu.Unlock()
		if err := p.runner.Adopt(fsm.Running); err != nil {
			return err
		}
		return p.runner.Submit(fsm.Stop)
	default:
		err = p.runner.Adopt(fsm.Running)
	}
	if err != nil {
		return err
	}
	p.tell(&ecsv1.Event{
		Kind: "run", Component: Name, Severity: ecsv1.Severity_SEVERITY_INFO,
		Text: fmt.Sprintf("run %d goes on: %d of %d nodes build", number, states[fsm.Running.String()]+states[fsm.Paused.String()], n),
	})
	if met != nil {
		p.log.Warn("not every node of the run answers", "err", met)
	}
	p.wg.Go(func() { p.watch(run) })
	return nil
}

// lostIt ends a run that cannot go on for want of its control.
func (p *Partition) lostIt(run *control.Run, why string) {
	fault := &control.FaultError{Fault: control.Fault{Component: control.Name, What: why, Evidence: "seen when it came back"}}
	p.stopping(control.EndControlLost)
	if p.take(run) {
		p.closeRun(run, run.GiveUp(fault))
	}
	p.given()
}
