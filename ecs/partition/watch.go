package partition

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/fsm"
	"ringlet/internal/config"
	"ringlet/internal/control"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// watch waits for what ends a run by itself, and has the machine end it.
func (p *Partition) watch(run *control.Run) {
	cfg := run.Configuration()
	var limit <-chan time.Time
	if d := cfg.Duration; d > 0 {
		timer := time.NewTimer(time.Until(run.StartedAt().Add(d)))
		defer timer.Stop()
		limit = timer.C
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-run.Drained():
			p.end(run, run.EndCause())
			return
		case <-run.Struck():
			p.strike(run)
			return
		case <-limit:
			p.end(run, control.EndDuration)
			return
		case <-tick.C:
			if p.current() != run {
				return
			}
			if name := run.Leaving(); name != "" {
				p.letGo(run, name)
			}
		case <-p.ctx.Done():
			return
		}
	}
}

// end stops a run that has come to its end.
func (p *Partition) end(run *control.Run, why string) {
	p.mu.Lock()
	if p.run != run {
		p.mu.Unlock()
		return
	}
	if p.asked.end == "" {
		p.asked.end = why
	}
	p.mu.Unlock()
	if err := p.runner.Submit(fsm.Stop); err != nil {
		p.log.Warn("a run that is over was not stopped", "run", run.Number(), "err", err)
	}
}

// strike takes the partition to Error for what broke.
func (p *Partition) strike(run *control.Run) {
	fault := run.Cause()
	if fault == nil || p.current() != run {
		return
	}
	why := causeOf(fault)
	if st := p.runner.Status().State; st != fsm.Running && st != fsm.Paused && st != fsm.Pausing && st != fsm.Resuming {
		return // the step under way will find it
	}
	if err := p.runner.Fail(why); err != nil {
		p.log.Error("a fault came too late", "fault", fault, "err", err)
	}
}

// lost notes a loss that the policy bears.
func (p *Partition) lost(x control.Fault) {
	_ = p.runner.Degrade(fsm.Cause{Component: x.Component, What: x.What, Evidence: x.Evidence})
	p.tell(&ecsv1.Event{
		Kind: "degraded", Component: x.Component, Severity: ecsv1.Severity_SEVERITY_WARNING,
		Text: fmt.Sprintf("the run goes on without %s: %s", x.Component, x.What),
	})
}

// letGo lets a node go that was told to end: its builder unit is taken out if the policy bears it, else the run ends in good order.
func (p *Partition) letGo(run *control.Run, name string) {
	p.change(func(r *ecsv1.Run) {
		if r.GetCause() == nil { // what was first is what counts
			r.Cause = &ecsv1.Cause{Component: name, What: "it was told to end", Evidence: "it asked to be let go", Code: "leaving", At: timestamppb.Now()}
		}
	})
	if _, err := run.LetGo(name); err == nil {
		_ = p.runner.Degrade(fsm.Cause{Component: name, What: "it was told to end"})
		p.tell(&ecsv1.Event{
			Kind: "excluded", Component: name, Severity: ecsv1.Severity_SEVERITY_WARNING,
			Text: fmt.Sprintf("%s was told to end, and the run goes on without it", name),
		})
		return
	}
	p.tell(&ecsv1.Event{
		Kind: "run", Component: name, Severity: ecsv1.Severity_SEVERITY_WARNING,
		Text: fmt.Sprintf("%s was told to end, and the run needs it: the run ends in good order", name),
	})
	p.end(run, control.EndLeaving)
}

// Allowance decides whether the partition may recover by itself once more: at most so many times in the time. It returns the times that
// still count.
func Allowance(bound config.Recover, before []time.Time, now time.Time) (again bool, counting []time.Time) {
	for _, t := range before {
		if now.Sub(t) < bound.In {
			counting = append(counting, t)
		}
	}
	return len(counting) < bound.Times, counting
}

// Recovery is who starts a run that nobody has asked for.
const Recovery = "automatic recovery"

// recoverByItself begins a new run after a fault, as often as the configuration allows, and says so.
func (p *Partition) recoverByItself() {
	p.mu.Lock()
	if p.loaded == nil {
		p.mu.Unlock()
		return
	}
	bound := p.loaded.cfg.Recovering()
	again, counting := Allowance(bound, p.recovery, time.Now())
	if again {
		counting = append(counting, time.Now())
	}
	p.recovery = counting
	p.mu.Unlock()
	switch {
	case bound.Times == 0:
		return
	case !again:
		p.tell(&ecsv1.Event{
			Kind: "recovery", Component: Name, Severity: ecsv1.Severity_SEVERITY_ERROR,
			Text: fmt.Sprintf("the partition has recovered %d times in %v and does not try again by itself: find the cause, then recover", bound.Times, bound.In),
		})
		return
	}
	p.tell(&ecsv1.Event{
		Kind: "recovery", Component: Name, Severity: ecsv1.Severity_SEVERITY_WARNING,
		Text: fmt.Sprintf("recovering by itself, for the %d. time of at most %d in %v", len(counting), bound.Times, bound.In),
	})
	p.mu.Lock()
	p.asked.by, p.asked.end, p.asked.abandon = Recovery, "", false
	p.mu.Unlock()
	for _, c := range []fsm.Command{fsm.Recover, fsm.Configure, fsm.Start} {
		if err := p.runner.Command(p.ctx, c); err != nil {
			p.tell(&ecsv1.Event{
				Kind: "recovery", Component: Name, Severity: ecsv1.Severity_SEVERITY_ERROR, Text: fmt.Sprintf("the recovery failed: %v", err),
			})
			return
		}
	}
}
