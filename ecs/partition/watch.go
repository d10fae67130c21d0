package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// watchRun waits for what ends a run by itself, and has the machine end it.
func (p *Partition) watchRun(run *nodes.Run) {
	cfg := run.Configuration()
	var limit <-chan time.Time
	if d := cfg.Duration; d > 0 {
		timer := time.NewTimer(time.Until(run.StartedAt().Add(d)))
		defer timer.Stop()
		limit = timer.C
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(p.ctx)
	back := p.newReadmitter(run)
	defer back.awaitAttempt()
	defer cancel()
	for {
		select {
		case <-run.Drained():
			p.endRun(run, run.EndCause())
			return
		case <-run.Faulted():
			p.failRun(run)
			return
		case <-limit:
			p.endRun(run, nodes.EndDuration)
			return
		case now := <-tick.C:
			if p.currentState().run != run {
				return
			}
			back.readmitNext(ctx, now)
			if p.handleDepartures(run) {
				return
			}
		case <-p.ctx.Done():
			return
		}
	}
}

// endRun stops a run that has come to its end.
func (p *Partition) endRun(run *nodes.Run, why string) {
	if p.currentState().run != run {
		return
	}
	p.updateState(func(s *partitionState) { s.pendingCommand.endCause = cmp.Or(s.pendingCommand.endCause, why) })
	if err := p.runner.Submit(fsm.Stop); err != nil {
		p.log.Warn("a run that is over was not stopped", "run", run.Number(), "err", err)
	}
}

// failRun takes the partition to Error for what broke.
func (p *Partition) failRun(run *nodes.Run) {
	struck := run.AwaitCause()
	if struck == nil || p.currentState().run != run {
		return
	}
	why := p.causeFromError(struck)
	if st := p.runner.Status().State; st != fsm.Running && st != fsm.Paused && st != fsm.Pausing && st != fsm.Resuming {
		return // the step under way will find it
	}
	first := p.causeMessage(why)
	first.At = timestampOrNil(struck.At)
	p.noteStopping(nodes.EndFault, first)
	if err := p.runner.Fail(why); err != nil {
		p.log.Error("a fault came too late", "fault", struck, "err", err)
	}
}

// noteLoss notes a loss that the policy tolerates.
func (p *Partition) noteLoss(x fault.Fault) {
	p.changeRecord(func(r *ecsv1.Run) {
		if r.GetCause() == nil { // what was first is what counts
			r.Cause = recordCause(x, causeCodeToleratedLoss, timestamppb.Now())
		}
	})
	_ = p.runner.Degrade(causeFromFault(x))
	p.publishf(severityWarning, "degraded", x.Component, "the run goes on without %s: %s", x.Component, x.What)
}

// handleDepartures lets nodes go that were told to end: a builder unit is taken out if the policy tolerates it, else
// the run ends in good order. It says whether that is so.
func (p *Partition) handleDepartures(run *nodes.Run) (ends bool) {
	news, err := run.UpdateDepartures(time.Now())
	if err != nil {
		p.log.Warn("a node that was told to end cannot be let go yet", "err", err)
	}
	for _, d := range news {
		ends = p.handleDeparture(run, d) || ends
	}
	return ends
}

// handleDeparture takes news of a node that was told to end.
func (p *Partition) handleDeparture(run *nodes.Run, d nodes.Departure) (ends bool) {
	kind := "excluded"
	text := fmt.Sprintf("%s was told to end, and the run goes on without it; %d of its MEPs go to others", d.Node,
		d.MEPsReissued)
	switch {
	case d.Withdrawn:
		kind, text = "left", d.Node+" was told to end, and has left the run in good order"
	case d.EndsRun:
		kind, text = "run", d.Node+" was told to end, and the run needs it: the run ends in good order"
	default:
		_ = p.runner.Degrade(fsm.Cause{Component: d.Node, What: "it was told to end"})
	}
	if !d.Withdrawn {
		p.changeRecord(func(r *ecsv1.Run) {
			if r.GetCause() == nil { // what was first is what counts
				r.Cause = &ecsv1.Cause{
					Component: d.Node,
					What:      "it was told to end",
					Evidence:  "it asked to be let go",
					Code:      "leaving",
					At:        timestamppb.Now(),
				}
			}
		})
	}
	p.log.Warn("a node was told to end", "node", d.Node, "what", text)
	p.publishf(severityWarning, kind, d.Node, "%s", text)
	if d.EndsRun {
		p.endRun(run, nodes.EndLeaving)
	}
	return d.EndsRun
}

// mayRecover decides whether the partition may recover by itself once more: at most so many times in the time. It
// returns the times that still count.
func mayRecover(bound config.RecoveryBound, before []time.Time, now time.Time) (again bool, counting []time.Time) {
	for _, t := range before {
		if now.Sub(t) < bound.Within {
			counting = append(counting, t)
		}
	}
	return len(counting) < bound.MaxTimes, counting
}

// recoveryUser is who starts a run that nobody has asked for.
const recoveryUser = "automatic recovery"

// recoverAutomatically begins a new run after a fault, as often as the configuration allows, and says so. It ends as
// soon as somebody else gives a command.
func (p *Partition) recoverAutomatically() {
	l := p.currentState().loadedConfig
	if l == nil {
		return
	}
	bound := l.cfg.RecoveryLimit()
	p.updateState(func(s *partitionState) {
		pending := &s.pendingCommand
		pending.user, pending.endCause, pending.abandon, pending.joinDeadline = recoveryUser, "", false, time.Time{}
	})
	if bound.MaxTimes == 0 {
		return
	}
	for p.recoverOnce(bound) {
		changed := p.cfg.Members.MembersChanged()
		select {
		case <-changed: // a node may have come back
		case <-time.After(recoverRetryDelay):
		case <-p.ctx.Done():
			return
		}
		if p.currentState().pendingCommand.user != recoveryUser { // somebody has given a command meanwhile
			return
		}
	}
}

// recoverRetryDelay is how long recovery waits for a node to come back before it tries without: a pod or a service is
// started again in less.
const recoverRetryDelay = 15 * time.Second

// recoverOnce tries, if that is still allowed, and says whether to try again.
func (p *Partition) recoverOnce(bound config.RecoveryBound) (again bool) {
	p.mu.Lock()
	allowed, counting := mayRecover(bound, p.recoveryTimes, time.Now())
	if allowed {
		counting = append(counting, time.Now())
	}
	p.recoveryTimes = counting
	p.mu.Unlock()
	if !allowed {
		p.publishf(severityError, "recovery", partitionComponent,
			"the partition has tried to recover %d times in %v and does not try again by itself: find the cause, then recover",
			bound.MaxTimes, bound.Within)
		return false
	}
	p.publishf(severityWarning, "recovery", partitionComponent,
		"recovering by itself, for the %d. time of at most %d in %v",
		len(counting),
		bound.MaxTimes, bound.Within)
	for _, c := range []fsm.Command{fsm.Recover, fsm.Configure, fsm.Start} {
		if fsm.EffectOf(p.runner.Status().State, c) == fsm.CommandRefused {
			continue // it was further already when it failed the last time
		}
		if err := p.runner.Command(p.ctx, c); err != nil {
			what := err.Error()
			var why fsm.Cause
			if errors.As(err, &why) {
				what += ". " + p.causeMessage(why).GetAdvice()
			}
			p.publishf(severityError, "recovery", partitionComponent, "the recovery failed: %s", what)
			return p.ctx.Err() == nil
		}
	}
	return false
}
