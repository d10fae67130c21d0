package run

import (
	"cmp"

	"ringlet/ecs/partition/fault"
)

// Reports is what nodes and scheduler tell of a run to a control that has come back.
type Reports struct {
	SelfStop        bool     // the nodes have ended it by themselves, or do
	Running         int      // nodes on which it goes on
	Missing         []string // nodes that took part to the end, and the scheduler, that cannot tell any more
	Paused          int      // nodes that are paused
	SchedulerPaused bool
}

// Find says how a control that comes back finds a run, by its record and by what nodes and scheduler tell: what its
// machine begins with. component is the control. Where pausing or resuming was cut short nobody knows which; paused is
// the phase in which nothing is lost and somebody decides. A run that goes on nowhere was ended in good order, or
// cannot be known to have been otherwise: nobody gives it up then.
func Find(component string, record Found, reports Reports) Input {
	in := Input{Found: record}
	in.Missing = reports.Missing
	switch {
	case record.Begun.IsZero():
		in.Kind, in.Reason = FoundUnbegun, EndControlLost
		in.Fault = &fault.Fault{
			Component: component,
			What:      "the control was lost while the run was beginning",
			Evidence:  "seen when it came back",
		}
	case record.End == EndFault: // it was being carried out
		in.Kind, in.Reason, in.Fault = FoundStruck, EndFault, &fault.Fault{}
		if record.Cause != nil {
			*in.Fault = record.Cause.Fault
		}
	case record.Cause != nil && record.Cause.Code == CodeAbandoned:
		in.Kind, in.Reason = FoundAbandoned, record.End
	case reports.Running == 0 && len(reports.Missing) > 0:
		in.Kind, in.Reason = FoundOver, cmp.Or(record.End, EndControlLost)
	case reports.SelfStop:
		in.Kind, in.Reason = FoundEnding, EndControlLost
	case !record.Ending.IsZero():
		in.Kind, in.Reason = FoundEnding, record.End
	case reports.SchedulerPaused || reports.Paused > 0:
		in.Kind = FoundPaused
	default:
		in.Kind = FoundGoing
	}
	return in
}
