package shmring

import (
	"cmp"
	"fmt"

	"ringlet/shmem/ring"
	"ringlet/source/live"
)

// noteArrivals counts and logs front-ends that came and went.
func (f *feed) noteArrivals(came, went uint64) {
	if came+went == 0 {
		return
	}
	f.attachedCount.Add(came)
	f.goneCount.Add(went)
	if went > 0 {
		f.log.Warn("a front-end has gone without the end of its run", "source", f.name, "frontend", f.Frontend(),
			"times", went)
	}
	if came > 0 {
		who := describeFrontend(f.ring.Frontend(), f.ring.PID())
		f.frontend.Store(&who)
		f.heldLogged = false
		f.ring.SetSafe(0) // the ring may tell this front-end more than the one before, or less
		f.log.Info("a front-end has attached", "source", f.name, "frontend", who, "times", came)
	}
}

// describeFrontend names a front-end.
func describeFrontend(name string, pid uint32) string {
	if name == "" {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("%s (process %d)", name, pid)
}

// Frontend implements live.FrontendNamer.
func (f *feed) Frontend() string { return loadString(f.frontend.Load()) }

// Explain returns why a record or a front-end was refused last; empty if none was.
func (f *feed) Explain() string { return loadString(f.refusal.Load()) }

func loadString(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ReleaseFragments implements live.Feed.
func (f *feed) ReleaseFragments(n int) {
	if !f.closed {
		f.ring.Done(n)
	}
}

// SetResumeEvent implements live.Feed. The next Next publishes it to the ring: by then all fragments given were taken.
func (f *feed) SetResumeEvent(event uint64) { f.resume, f.hasResume = event, true }

// ReportGivenUp implements live.Feed.
func (f *feed) ReportGivenUp(from, to uint64, why live.Fault) {
	next := live.GivenUpRange{From: from, To: to, Fault: why}
	if f.closed || from >= to || f.givenUp.Extend(next) {
		return
	}
	f.flushGivenUp()
	f.givenUp = next
}

// ringReasons are the ring's reasons for each fault.
var ringReasons = map[live.Fault]ring.Reason{
	live.FaultLate:      ring.Late,
	live.FaultRepeat:    ring.Repeat,
	live.FaultBackwards: ring.Backwards,
	live.FaultJump:      ring.Jump,
}

// flushGivenUp tells the front-end of the given-up range.
func (f *feed) flushGivenUp() {
	if f.givenUp.From < f.givenUp.To {
		f.ring.ReportGivenUp(f.givenUp.From, f.givenUp.To, cmp.Or(ringReasons[f.givenUp.Fault], ring.Leftover))
	}
	f.givenUp = live.GivenUpRange{}
}

// SetSafeBelow implements live.Feed.
func (f *feed) SetSafeBelow(event uint64) {
	if f.closed {
		return
	}
	f.flushGivenUp()
	f.ring.SetSafe(event)
	if held, isHeld := f.ring.SafeHeldAt(); isHeld && !f.heldLogged && f.attachedCount.Load() > 0 {
		f.heldLogged = true
		f.log.Warn("a front-end is told that nothing is safe from one event on: fragments of it were given up, and its "+
			"client cannot be told which; build it with the client of this release", "source", f.name,
			"frontend", f.Frontend(), "event", held)
	}
}
