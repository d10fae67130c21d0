package readoutunit

import (
	"fmt"
	"strconv"

	"ringlet/readoutunit/source"
	"ringlet/readoutunit/source/live"
	"ringlet/tagnet"
)

// liveScheduler is what a readout unit with live sources needs of TagNet besides: the scheduler decides which events a
// MEP has.
type liveScheduler interface {
	// ReportReach tells how far the live data go; it does not wait.
	ReportReach(tagnet.Reach) error
}

// reportReach tells the scheduler how far the live data go. That a session is over its other methods tell.
func (u *Unit) reportReach(r live.Reach) {
	sched, ok := u.cfg.Scheduler.(liveScheduler)
	if !ok {
		u.fail(fmt.Errorf("a live source needs a scheduler that cuts, and this one is a %T", u.cfg.Scheduler))
		return
	}
	_ = sched.ReportReach(tagnet.Reach{
		FirstUncut:    r.FirstUncut,
		CompleteBelow: r.CompleteBelow,
		FlushBelow:    r.FlushBelow,
		OverdueBelow:  r.OverdueBelow,
		Ended:         r.InputOver,
	})
}

// applyCuts tells the source which events further MEPs have, and which have their outcome.
func (u *Unit) applyCuts(t *tagnet.Tokens) {
	if u.live == nil {
		return
	}
	if len(t.Cuts) > 0 || t.CutsOver {
		cuts := make([]live.Cut, len(t.Cuts))
		for i, c := range t.Cuts {
			cuts[i] = live.Cut{First: c.FirstEvent, Events: c.Events}
		}
		u.live.AddCuts(cuts, t.CutsOver)
	}
	u.live.SetOutcomesBelow(lowestNeeded(t))
	if t.State >= tagnet.Draining {
		u.live.EndIntake()
	}
}

// liveStats are the figures of the live sources, by their ids; nil, if the unit has none.
func (u *Unit) liveStats() map[string]source.LiveStats {
	if u.live == nil {
		return nil
	}
	stats := map[string]source.LiveStats{}
	for _, s := range u.live.SourceStats() {
		stats[strconv.Itoa(int(s.SourceID))] = s
	}
	return stats
}

// InputFailure is why a live source cannot go on, or lacks what the run cannot do without; nil if none does.
func (u *Unit) InputFailure() error {
	if down := u.inputFailure.Load(); down != nil {
		return down.Err
	}
	if u.live == nil {
		return nil
	}
	return u.live.Failure()
}
