package partition

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"ringlet/ecs/fsm"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	"ringlet/internal/control"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// load settles who the members are and takes them to NotReady.
func (p *Partition) load(ctx context.Context) error {
	p.mu.Lock()
	cfg := p.asked.configuration
	p.loaded = &loaded{asked: cfg, cfg: cfg}
	p.mu.Unlock()
	defer p.remember()
	return causeOr(p.muster(ctx))
}

// resolve finds what a configuration leaves open: who its members are, and what its input needs.
func (p *Partition) resolve(ctx context.Context) (loaded, error) {
	p.mu.Lock()
	l := *p.loaded
	p.mu.Unlock()
	if l.names != nil {
		return l, nil
	}
	names, err := p.names(ctx, &l.cfg)
	if err != nil {
		return l, err
	}
	if err := control.Prepare(&l.cfg); err != nil {
		return l, err
	}
	l.names = names
	p.mu.Lock()
	p.loaded = &l
	p.mu.Unlock()
	return l, nil
}

// names are the members of a configuration: those it names, or the first by name that have joined.
func (p *Partition) names(ctx context.Context, cfg *config.Config) ([]string, error) {
	if names := cfg.MemberNames(); names != nil {
		return names, nil
	}
	p.awaitNodes(ctx, *cfg)
	names := p.nodes()
	if len(names) < cfg.Nodes {
		return nil, fmt.Errorf("%d nodes are wanted, and %d have joined: %v", cfg.Nodes, len(names), names)
	}
	return names[:cfg.Nodes], nil
}

// nodes are the names of those in the cluster that can take part, by rank of their names.
func (p *Partition) nodes() []string {
	var names []string
	for _, m := range p.cfg.Members.Members() {
		if m.Meta.Roles.Has(cluster.Readout) || m.Meta.Roles.Has(cluster.Builder) {
			names = append(names, m.Name)
		}
	}
	return names
}

// muster decides who takes part now, meets them anew, and takes them to NotReady.
func (p *Partition) muster(ctx context.Context) error {
	l, err := p.resolve(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	old, absent := p.crew, p.excludedNow()
	p.mu.Unlock()
	present := p.awaitMembers(ctx, l.names, absent)
	for _, name := range l.names {
		if _, there := present[name]; !there && !isAbsent(absent, name) {
			absent = append(absent, Absent{name, "it has not joined"})
		}
	}
	crew, absent, err := p.meet(ctx, &l, present, absent)
	if err != nil {
		return err
	}
	if old != nil {
		old.Release() // not before there is another: whoever interrupts this has somebody to speak with
	}
	p.mu.Lock()
	p.crew, p.loaded = crew, &loaded{asked: l.asked, cfg: l.cfg, names: l.names, absent: absent}
	p.mu.Unlock()
	cfg := crew.Configuration()
	if err := cfg.Check(crew.Facts()); err != nil {
		return err
	}
	return crew.Load(ctx)
}

// meet makes the crew of those who are present and answer. Gossip takes seconds to miss a node: who does not answer is absent, too.
func (p *Partition) meet(ctx context.Context, l *loaded, present map[string]cluster.Member, absent []Absent) (*control.Crew, []Absent, error) {
	for {
		cfg, names, err := Muster(l.cfg, l.names, absent)
		if err != nil {
			return nil, absent, err
		}
		members := make([]cluster.Member, len(names))
		for i, name := range names {
			members[i] = present[name]
		}
		crew := control.NewCrew(p.options(&cfg, names), cfg)
		within, cancel := context.WithTimeout(ctx, answerTime)
		err = crew.Meet(within, members)
		cancel()
		if err == nil {
			return crew, absent, nil
		}
		crew.Release()
		unmet := control.Unmet(err)
		if len(unmet) == 0 || ctx.Err() != nil {
			return nil, absent, err
		}
		for _, name := range names {
			if why, ok := unmet[name]; ok {
				absent = append(absent, Absent{name, why})
			}
		}
	}
}

// answerTime is how long a node that has joined may take to answer for the first time: its service is up before it joins.
const answerTime = 8 * time.Second

func isAbsent(absent []Absent, name string) bool {
	return slices.ContainsFunc(absent, func(a Absent) bool { return a.Name == name })
}

// options of the crew of a configuration.
func (p *Partition) options(cfg *config.Config, names []string) control.Options {
	seat := cfg.TagnetNode
	if seat == "" {
		seat = names[0]
	}
	return control.Options{
		Identity: p.cfg.Identity, Host: p.cfg.Host, Seat: seat, Version: p.cfg.Version, Patience: p.cfg.Patience, Log: p.log,
		Lost: p.lost,
	}
}

// awaitMembers waits until all who should take part have joined, and while nothing says that one will, only for a moment.
func (p *Partition) awaitMembers(ctx context.Context, names []string, absent []Absent) map[string]cluster.Member {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	for {
		changed := p.cfg.Members.Changed()
		present := map[string]cluster.Member{}
		for _, m := range p.cfg.Members.Members() {
			present[m.Name] = m
		}
		missing := slices.ContainsFunc(names, func(name string) bool {
			_, there := present[name]
			return !there && !isAbsent(absent, name)
		})
		if !missing {
			return present
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return present
		}
	}
}

// awaitNodes waits a moment for the nodes that a configuration wants: those of a control that has just come back join it again within seconds.
func (p *Partition) awaitNodes(ctx context.Context, cfg config.Config) {
	if names := cfg.MemberNames(); names != nil {
		p.awaitMembers(ctx, names, nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	for {
		changed := p.cfg.Members.Changed()
		if len(p.nodes()) >= cfg.Nodes {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// joinTime is how long a step waits for members that are not there: a node that was just started takes less than a second.
const joinTime = 5 * time.Second

// configure takes the nodes to Ready. Who is lost by now takes no part, if the policy bears it; who has come back does again.
func (p *Partition) configure(ctx context.Context) error {
	if err := p.muster(ctx); err != nil {
		return causeOf(err)
	}
	p.remember()
	p.mu.Lock()
	crew, absent := p.crew, p.loaded.absent
	p.mu.Unlock()
	if err := crew.Configure(ctx); err != nil {
		return causeOf(crew.FaultOf(err, "while configuring"))
	}
	p.mu.Lock()
	p.stale = false
	p.mu.Unlock()
	p.remember()
	if err := p.restore(); err != nil {
		return err
	}
	for _, a := range absent {
		if err := p.runner.Degrade(fsm.Cause{Component: a.Name, What: a.Name + " takes no part: " + a.Why}); err != nil {
			return err
		}
	}
	return nil
}

// start takes the next run number and begins the run.
func (p *Partition) start(ctx context.Context) error {
	p.mu.Lock()
	crew, stale := p.crew, p.stale
	p.mu.Unlock()
	if stale || !crew.Whole() { // who was lost meanwhile takes no part, if the policy bears it
		p.given()
		if err := crew.Clear(ctx); err != nil {
			p.log.Warn("not every node has come to rest", "err", err) // who does not answer takes no part, if the policy bears it
		}
		if err := p.configure(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		crew = p.crew
		p.mu.Unlock()
	}
	if err := p.restore(); err != nil {
		return causeOf(err)
	}
	if err := p.openRecord(crew); err != nil {
		return causeOf(err)
	}
	run := crew.NewRun(p.record().GetNumber())
	p.mu.Lock()
	p.run = run
	p.mu.Unlock()
	if err := run.Begin(ctx); err != nil {
		if ctx.Err() != nil {
			return causeOf(err) // stopped meanwhile: whoever stops it ends the run
		}
		fault := crew.FaultOf(err, "while the run began")
		if p.take(run) {
			p.closeRun(run, run.GiveUp(fault))
		}
		p.given()
		return causeOf(fault)
	}
	p.began(run)
	p.wg.Go(func() { p.watch(run) })
	return nil
}

// restore clears the flag that an earlier run has left, where everybody takes part.
func (p *Partition) restore() error {
	p.mu.Lock()
	absent := len(p.loaded.absent)
	p.mu.Unlock()
	if absent > 0 {
		return nil
	}
	return p.runner.Restore()
}

func (p *Partition) pause(ctx context.Context) error {
	return causeOr(p.current().Pause(ctx))
}

func (p *Partition) resume(ctx context.Context) error {
	return causeOr(p.current().Resume(ctx))
}

// halt ends the run in good order: what is under way is built, outputs are completed, accounts are closed.
func (p *Partition) halt(ctx context.Context) error {
	run := p.current()
	if run == nil {
		return nil
	}
	p.mu.Lock()
	why, abandon := p.asked.end, p.asked.abandon
	p.mu.Unlock()
	p.stopping(why, nil)
	run.EndFor(why)
	p.remember()
	if !abandon && !run.StartedAt().IsZero() {
		if err := p.drain(ctx, run, why); err != nil && !errors.Is(err, errAbandoned) {
			return err // the time is over: abandon ends the run
		} else if err == nil {
			return p.finish(run)
		}
	}
	if p.take(run) {
		p.closeRun(run, run.Interrupt(why))
	}
	p.given()
	return nil
}

// errAbandoned ends a drain that somebody has no patience with.
var errAbandoned = errors.New("the run was given up while it drained")

// finish closes a run that has drained, or that something struck while it did.
func (p *Partition) finish(run *control.Run) error {
	if !p.take(run) {
		return nil // it has been given up
	}
	report, err := run.Finish()
	p.closeRun(run, report)
	if err != nil {
		p.given()
		return causeOf(err)
	}
	return nil
}

// drain waits until everything issued has its outcome, or something strikes.
func (p *Partition) drain(ctx context.Context, run *control.Run, why string) error {
	select {
	case <-run.Drained():
		return nil
	default:
	}
	told := run.Drain(why)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-run.Drained():
			return nil
		case <-run.Struck():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			p.mu.Lock()
			abandon := p.asked.abandon
			p.mu.Unlock()
			if abandon {
				return errAbandoned
			}
			if told != nil {
				told = run.Drain(why)
			}
			run.LookForStall(now)
		}
	}
}

func (p *Partition) reset(ctx context.Context) error {
	p.mu.Lock()
	crew := p.crew
	p.stale = false
	p.mu.Unlock()
	defer p.remember()
	if crew == nil {
		return nil
	}
	if err := crew.Clear(ctx); err != nil {
		p.log.Warn("not every node has come to rest", "err", err) // the next configure finds who is there
	}
	return nil
}

func (p *Partition) unload(ctx context.Context) error {
	p.mu.Lock()
	crew := p.crew
	p.mu.Unlock()
	if crew != nil {
		within, cancel := context.WithTimeout(ctx, letGoTime)
		if err := crew.Unload(within); err != nil {
			p.log.Warn("not every node was let go", "err", err) // it is found at rest or elsewhere by the next load
		}
		cancel()
		crew.Release()
	}
	p.mu.Lock()
	p.crew, p.loaded, p.excluded = nil, nil, map[string]bool{}
	p.mu.Unlock()
	p.remember()
	return nil
}

// letGoTime bounds how long nodes may take to go through Unloading; a sound one takes milliseconds.
const letGoTime = 5 * time.Second

// recover brings whoever answers back to NotReady; who does not is left out by the next configure, if the policy bears it.
func (p *Partition) recover(ctx context.Context) error {
	p.mu.Lock()
	crew := p.crew
	p.stale = false
	p.mu.Unlock()
	if crew == nil {
		return nil // it was load that failed: configure tries again to find the nodes
	}
	if err := crew.Clear(ctx); err != nil {
		p.log.Warn("not every node has come to rest", "err", err)
	}
	return nil
}

// abandon puts everything to rest after a fault, or when stop goes by force.
func (p *Partition) abandon(from fsm.State, why fsm.Cause) {
	defer p.caught()
	run := p.current()
	if run == nil {
		return
	}
	fault := &control.FaultError{Fault: control.Fault{Component: why.Component, What: why.What, Evidence: why.Evidence}}
	p.stopping(control.EndFault, message(why))
	if p.take(run) {
		p.closeRun(run, run.GiveUp(fault))
	}
	p.given()
	if from == fsm.Running || from == fsm.Paused {
		p.wg.Go(p.recoverByItself)
	}
}

// caught keeps the run control alive when giving a run up goes wrong in a way nobody thought of.
func (p *Partition) caught() {
	if v := recover(); v != nil {
		p.tell(&ecsv1.Event{
			Kind: "fault", Component: control.Name, Severity: ecsv1.Severity_SEVERITY_ERROR,
			Text: fmt.Sprintf("a mistake in the program, while a run was given up: %v\n%s", v, debug.Stack()),
		})
	}
}

// given notes that the nodes have given up their links.
func (p *Partition) given() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = true
}

func (p *Partition) current() *control.Run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// take makes the caller the one who ends the run; false if somebody else is.
func (p *Partition) take(run *control.Run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != run {
		return false
	}
	p.run = nil
	return true
}

func (p *Partition) record() *ecsv1.Run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec
}

func causeOr(err error) error {
	if err == nil {
		return nil
	}
	return causeOf(err)
}
