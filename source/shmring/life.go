package shmring

import (
	"sync"

	"ringlet/shmem/ring"
	"ringlet/source/live"
)

// ringLife is what the source has of the run's life. The ring's words are read whenever somebody asks: before the run
// begins nobody calls Next.
type ringLife struct {
	mu       sync.Mutex // guards what follows, and the ring's words against Close
	life     live.Life
	attached uint64 // number of the front-end that is there; 0: none
	gone     uint64 // number of the last one that went away, dead or not
	replied  uint64 // ticket of its last reply that is known
	reply    uint8
	failed   string // what broke the ring's format; empty: nothing
	closed   bool
}

// Want implements live.Follower.
func (f *feed) Want(c live.Command) {
	f.life.mu.Lock()
	defer f.life.mu.Unlock()
	if !f.life.closed {
		f.lookLocked()
		f.stepLife(live.LifeInput{Event: live.RunWants, Command: c})
	}
}

// Life implements live.Follower.
func (f *feed) Life() live.LifeStatus {
	f.life.mu.Lock()
	defer f.life.mu.Unlock()
	if f.life.closed {
		return f.life.life.Status(false)
	}
	f.lookLocked()
	s := f.life.life.Status(f.life.failed == "" && !f.ring.IsEmpty())
	if f.life.failed != "" {
		s.Failed, s.Arrived = f.life.failed, false
	}
	return s
}

// lookAtLife takes up what the front-end has stored, and whether it lives.
func (f *feed) lookAtLife() {
	f.life.mu.Lock()
	defer f.life.mu.Unlock()
	f.lookLocked()
}

// lookLocked is lookAtLife for a caller that holds the mutex.
func (f *feed) lookLocked() {
	l := &f.life
	locked, err := f.seg.IsByteClaimed(ring.ProducerByte)
	locked = locked || err != nil // Next returns the error
	state, attached := f.ring.ProducerState()
	ticket, reply := f.ring.Reply()
	isThere := state == ring.Attached && locked && attached != l.gone
	if attached == l.attached && reply != 0 && (ticket != l.replied || reply != l.reply) {
		l.replied, l.reply = ticket, reply
		if known, err := live.ParseReply(reply); err == nil {
			f.stepLife(live.LifeInput{Event: live.FrontendReplied, Ticket: ticket, Reply: known,
				Why: f.ring.Why()})
		}
	}
	if state == ring.Ended && !l.life.IsOver() {
		f.stepLife(live.LifeInput{Event: live.FrontendOver})
	}
	if l.attached != 0 && (!isThere || attached != l.attached) {
		l.gone, l.attached = l.attached, 0
		f.stepLife(live.LifeInput{Event: live.FrontendGone})
	}
	if isThere && l.attached == 0 {
		l.attached, l.replied, l.reply = attached, 0, 0
		f.stepLife(live.LifeInput{Event: live.FrontendAttached, Follows: f.ring.Follows(attached)})
	}
}

// stepLife gives an input to the life of the source, and tells the front-end what follows. The mutex is held.
func (f *feed) stepLife(in live.LifeInput) {
	before := f.life.life.Status(false)
	for _, c := range f.life.life.Step(in) {
		f.ring.Notify(c.Ticket, uint8(c.Command))
	}
	if now := f.life.life.Status(false); now.Failed != "" && now.Failed != before.Failed {
		f.log.Warn("a front-end says that it has failed", "source", f.name, "frontend", f.Frontend(), "why", now.Failed)
	}
}

// endLife tells the front-end that the run ends, and lets the ring be closed.
func (f *feed) endLife() {
	f.Want(live.End)
	f.life.mu.Lock()
	defer f.life.mu.Unlock()
	f.life.closed = true
}
