package readoutunit

import (
	"errors"
	"io"
	"strconv"

	"ringlet/source"
	"ringlet/source/live"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// endsProperly notes the error that ended the input. It tells whether the data before the error are still to be built:
// yes, if the input has come to its end, and also if the input is bad. Of bad input the run learns through BadRecord
// and InputFailure.
func (u *Unit) endsProperly(err error) bool {
	var record *source.BadRecordError
	var down *live.EndError
	switch {
	case errors.As(err, &down):
		u.inputFailure.Store(down)
		u.cfg.Log.Error("a live source failed, the events before are built", "err", down)
	case errors.As(err, &record):
		u.badRecord.Store(record)
		u.cfg.Log.Info("a record of the input is bad, the MEPs before it are built", "err", record)
	default:
		return errors.Is(err, io.EOF)
	}
	return true
}

// reportReach reports to the scheduler how far the live data reach. Other methods of Scheduler report that its session
// is over.
func (u *Unit) reportReach(r live.Reach) {
	_ = u.cfg.Scheduler.ReportReach(core.Reach{
		FirstUncut:    r.FirstUncut,
		CompleteBelow: r.CompleteBelow,
		FlushBelow:    r.FlushBelow,
		OverdueBelow:  r.OverdueBelow,
		Ended:         r.InputOver,
	})
}

// applyCuts tells the source the events of further MEPs, and up to which MEP all have their outcome.
func (u *Unit) applyCuts(t *tagnet.Tokens) {
	if len(t.Cuts) > 0 || t.CutsOver {
		cuts := make([]live.Cut, len(t.Cuts))
		for i, c := range t.Cuts {
			cuts[i] = live.Cut{First: c.FirstEvent, Events: c.Events}
		}
		u.live.AddCuts(cuts, t.CutsOver)
	}
	u.live.SetOutcomesBelow(lowestNeeded(t))
	if t.State >= core.Draining {
		u.live.EndIntake()
	}
}

// liveStats are the figures of the live sources, by source id; nil if the unit has none.
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

// InputFailure says why a live source cannot go on, or which fragments the run must have are missing; nil if neither.
func (u *Unit) InputFailure() error {
	if down := u.inputFailure.Load(); down != nil {
		return down.Err
	}
	if u.live == nil {
		return nil
	}
	return u.live.Failure()
}

// BadRecord is the record that ended the input, or nil.
func (u *Unit) BadRecord() *source.BadRecordError { return u.badRecord.Load() }
