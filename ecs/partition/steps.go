package partition

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// configureNodes takes the nodes that take part to Ready.
func (p *Partition) configureNodes(ctx context.Context) error {
	now := p.now()
	p.remember()
	if err := now.crew.Configure(ctx, now.loaded.cfg.RunNumber); err != nil {
		return now.crew.FaultOf(err, "while configuring")
	}
	p.remember()
	if err := p.restore(); err != nil {
		return err
	}
	for _, a := range now.loaded.absent {
		if err := p.runner.Degrade(fsm.Cause{Component: a.Name, What: a.Name + " takes no part: " + a.Why}); err != nil {
			return err
		}
	}
	return nil
}

// clear brings nodes to rest, which give up their links: it resets, recovers, and comes before another configure. Who
// does not answer takes no part then, if the policy bears it.
func (p *Partition) clear(ctx context.Context) error {
	defer p.remember()
	crew := p.now().crew
	if crew == nil {
		return nil // it was load that failed: configure tries again to find the nodes
	}
	if err := crew.Clear(ctx); err != nil {
		p.log.Warn("not every node has come to rest", "err", err)
	}
	return nil
}

// takeNumber takes the next run number, and opens the record of the run.
func (p *Partition) takeNumber(context.Context) error {
	if err := p.restore(); err != nil {
		return err
	}
	return p.openRecord(p.now().crew)
}

// begin begins the run that has its record.
func (p *Partition) begin(ctx context.Context) error {
	now := p.now()
	run := now.crew.NewRun(now.rec.GetNumber())
	run.UseKey(now.rec.GetRunKey())
	p.set(func(s *standing) { s.run = run })
	if err := run.Begin(ctx); err != nil {
		if ctx.Err() != nil { // stopped meanwhile: whoever stops it ends the run
			var why fsm.Cause
			if errors.As(context.Cause(ctx), &why) { // its time is over, perhaps before there was a run that could be given up
				p.cutShort(run, why)
			}
			return err
		}
		struck := now.crew.FaultOf(err, "while the run began")
		p.drop(run, func() *nodes.Report { return run.GiveUp(struck) })
		return struck
	}
	p.began(run)
	p.wg.Go(func() { p.watch(run) })
	return nil
}

// restore clears the flag that less takes part than should, unless members are absent.
func (p *Partition) restore() error {
	if len(p.now().loaded.absent) > 0 {
		return nil
	}
	return p.runner.Restore()
}

func (p *Partition) pause(ctx context.Context) error  { return p.now().run.Pause(ctx) }
func (p *Partition) resume(ctx context.Context) error { return p.now().run.Resume(ctx) }

// halt ends the run in good order: what is under way is built, outputs are completed, accounts are closed.
func (p *Partition) halt(ctx context.Context) error {
	now := p.now()
	run, why := now.run, now.asked.end
	if run == nil {
		return nil
	}
	abandon, began := now.asked.abandon, !run.StartedAt().IsZero()
	p.stopping(why, givenUp(now.asked.by, abandon, began))
	run.EndFor(why)
	p.remember()
	defer p.whileItMoves(ctx, run)()
	if !abandon && began {
		err := p.drain(ctx, run, why)
		switch {
		case err == nil:
			return p.finish(run)
		case !errors.Is(err, errAbandoned):
			return err // the time is over: abandon ends the run
		}
		given := givenUp(p.now().asked.by, true, began)
		p.change(func(r *ecsv1.Run) { r.Cause = given })
	}
	p.drop(run, run.Interrupt)
	return nil
}

// givenUp is why a run that somebody stops does not end in good order; nil if it does.
func givenUp(by string, abandon, began bool) *ecsv1.Cause {
	var what, code string
	switch {
	case abandon:
		what, code = "gave the run up: everything under way was dropped", codeAbandoned
	case !began:
		what, code = "stopped the run before all nodes had begun it: everything under way was dropped", "not_begun"
	default:
		return nil
	}
	return &ecsv1.Cause{
		Component: by,
		What:      what,
		Code:      code,
		At:        timestamppb.Now(),
	}
}

// codeAbandoned is the code of the cause of a run that somebody gave up: a control that comes back knows by it that it
// was.
const codeAbandoned = "abandoned"

// tellEvery is how often it is told what the end of a run waits for.
const tellEvery = 5 * time.Second

// whileItMoves tells the machine that the end of a run moves, so that it is not cut, and everybody what it waits for,
// until what it returns is called.
func (p *Partition) whileItMoves(ctx context.Context, run *nodes.Run) (end func()) {
	// It is the machine that cuts what stands still.
	_, moved := stopwatch.WithStallTimeout(ctx, math.MaxInt64, run.Moved, func() { fsm.ContextMoved(ctx) })
	told := stopwatch.Every(tellEvery, func() {
		p.say(info, "run", ownName, "run %d ends: it waits for %s", run.Number(), run.WaitsFor())
	})
	return func() { moved(); told() }
}

// errAbandoned ends a drain that somebody has no patience with.
var errAbandoned = errors.New("the run was given up while it drained")

// finish closes a run that has drained, or that something struck while it did.
func (p *Partition) finish(run *nodes.Run) error {
	if !p.take(run) {
		return nil // it has been given up
	}
	report, err := run.Finish()
	p.closeRun(run, report)
	if err != nil {
		return p.causeOf(err)
	}
	return nil
}

// drain waits until everything issued has its outcome, or something strikes.
func (p *Partition) drain(ctx context.Context, run *nodes.Run, why string) error {
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
			if p.now().asked.abandon {
				return errAbandoned
			}
			if told != nil {
				told = run.Drain(why)
			}
			p.departures(run)
			run.LookForStall(now)
		}
	}
}

func (p *Partition) unload(ctx context.Context) error {
	crew := p.now().crew
	if crew != nil {
		within, cancel := context.WithTimeout(ctx, p.within(letGoTime))
		if err := crew.Unload(within); err != nil {
			p.log.Warn("not every node was let go", "err", err) // it is found at rest or elsewhere by the next load
		}
		cancel()
		crew.Release()
	}
	p.set(func(s *standing) { s.crew, s.loaded, s.excluded = nil, nil, nil })
	p.remember()
	return nil
}

// letGoTime bounds how long nodes may take to go through Unloading; a sound one takes milliseconds.
const letGoTime = 5 * time.Second

// abandon puts everything to rest after a fault, or when stop goes by force.
func (p *Partition) abandon(from fsm.State, why fsm.Cause) {
	defer p.caught()
	run := p.now().run
	if run == nil {
		return
	}
	p.cutShort(run, why)
	if from == fsm.Running || from == fsm.Paused {
		p.wg.Go(p.recoverByItself)
	}
}

// cutShort ends a run by what its machine has met, unless somebody else does. A stop in which nothing moved says what
// it waited for.
func (p *Partition) cutShort(run *nodes.Run, why fsm.Cause) {
	if why.Kind == fsm.CauseTimeout && why.State == fsm.Stopping {
		why.What += ": nothing moved any more, and it waits for " + run.WaitsFor()
	}
	p.stopping(nodes.EndFault, p.message(why))
	p.drop(run, func() *nodes.Report { return run.GiveUp(&fault.Error{Fault: p.faultOf(why)}) })
}

// drop gives a run up, and closes it with its report, unless somebody else ends it.
func (p *Partition) drop(run *nodes.Run, giveUp func() *nodes.Report) {
	if p.take(run) {
		p.closeRun(run, giveUp())
	}
}

// caught keeps the run control alive when giving a run up goes wrong in a way nobody thought of.
func (p *Partition) caught() {
	if v := recover(); v != nil {
		p.say(bad, "fault", nodes.Name, "a mistake in the program, while a run was given up: %v\n%s", v, debug.Stack())
	}
}

// take makes the caller the one who ends the run; false if somebody else is.
func (p *Partition) take(run *nodes.Run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != run {
		return false
	}
	p.run = nil
	return true
}
