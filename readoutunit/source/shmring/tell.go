package shmring

import (
	"fmt"

	"ringlet/readoutunit/source/live"
	"ringlet/shmem/fragring"
)

// see counts and tells what has become of the front-end.
func (f *feed) see(came, went uint64) {
	if came+went == 0 {
		return
	}
	f.attached.Add(came)
	f.gone.Add(went)
	if went > 0 {
		f.log.Warn("a front-end has gone without the end of its run", "source", f.name, "frontend", f.Frontend(),
			"times", went)
	}
	if came > 0 {
		who := describe(f.ring.Frontend(), f.ring.PID())
		f.who.Store(&who)
		f.heldBack = false
		f.ring.SetSafe(0) // it may be told more than the one before, or less
		f.log.Info("a front-end has attached", "source", f.name, "frontend", who, "times", came)
	}
}

// describe names a front-end.
func describe(name string, pid uint32) string {
	if name == "" {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("%s (process %d)", name, pid)
}

// Frontend implements live.Named.
func (f *feed) Frontend() string { return text(f.who.Load()) }

// Explain is why a record or a front-end was refused last; empty where none was.
func (f *feed) Explain() string { return text(f.why.Load()) }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Done is live.Feed's.
func (f *feed) Done(n int) {
	if !f.closed {
		f.ring.Done(n)
	}
}

// Resume is live.Feed's. The ring hears of it with the next Next: then all that was given has been taken.
func (f *feed) Resume(event uint64) { f.resume, f.believed = event, true }

// GaveUp is live.Feed's.
func (f *feed) GaveUp(from, to uint64, why live.Fault) {
	next := live.GivenUp{From: from, To: to, Why: why}
	if f.closed || from >= to || f.given.Join(next) {
		return
	}
	f.tell()
	f.given = next
}

// tell tells the front-end what was given up.
func (f *feed) tell() {
	if f.given.From < f.given.To {
		f.ring.ReportGivenUp(f.given.From, f.given.To, reason(f.given.Why))
	}
	f.given = live.GivenUp{}
}

// reason is a fault in the words of the ring.
func reason(why live.Fault) fragring.Reason {
	switch why {
	case live.Late:
		return fragring.Late
	case live.Repeat:
		return fragring.Repeat
	case live.Backwards:
		return fragring.Backwards
	case live.Jump:
		return fragring.Jump
	}
	return fragring.Leftover
}

// Safe is live.Feed's.
func (f *feed) Safe(event uint64) {
	if f.closed {
		return
	}
	f.tell()
	f.ring.SetSafe(event)
	if held, is := f.ring.SafeHeldAt(); is && !f.heldBack && f.attached.Load() > 0 {
		f.heldBack = true
		f.log.Warn("a front-end is told that nothing is safe from one event on: fragments of it were given up, and its "+
			"client cannot be told which; build it with the client of this release", "source", f.name,
			"frontend", f.Frontend(), "event", held)
	}
}
