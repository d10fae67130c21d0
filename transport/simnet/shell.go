package simnet

import "time"

// A SendMode is how the owner of a machine goes about sending.
type SendMode uint8

// SendModes.
const (
	// Eager asks for datagrams whenever anything has happened, whether or not any is said to be due.
	Eager SendMode = iota
	// Inline is the reader of a socket in a process of one or two processors: what a read makes due it sends before it
	// reads again, for as long as something is due. Time is kept by a pump, which sleeps until the deadline that it
	// knew when it lay down, or an earlier one.
	Inline
	// Pumped is a process of more processors: the reader wakes the pump if something is due, and the pump sends.
	Pumped
)

// Due is asked for by the modes Inline and Pumped.
type dueMachine interface{ NextDue() bool }

// wakeUpDelay is how long a pump takes to wake.
const wakeUpDelay = int64(20 * time.Microsecond)

// maxSends bounds what is sent in one go. More than all windows together hold is a machine that says that something is
// due, and sends nothing.
const maxSends = 1 << 14

// endDriver is the owner of one end.
type endDriver struct {
	mode   SendMode
	wakeAt int64 // when the pump wakes, ns; 0: it sleeps until something is due
}

// finishRead tells an owner that its reader has taken what was at hand.
func (p *Pair) finishRead(e int) {
	due := p.Ends[e].(dueMachine).NextDue()
	switch s := &p.drivers[e]; {
	case s.mode == Inline && due:
		p.sendDue(e)
	case due:
		s.wakeAt = p.now + wakeUpDelay
	}
	p.sleepUntilDeadline(e)
}

// sleepUntilDeadline has a pump sleep no longer than until the deadline.
func (p *Pair) sleepUntilDeadline(e int) {
	if d := p.Ends[e].Deadline(); d != 0 && (p.drivers[e].wakeAt == 0 || d < p.drivers[e].wakeAt) {
		p.drivers[e].wakeAt = max(d, p.now)
	}
}

// Wake tells an owner's pump that the owner has asked the machine for something.
func (p *Pair) Wake(e int) {
	if p.drivers[e].mode != Eager {
		p.drivers[e].wakeAt = p.now
	}
}

// runPumps lets the pumps that are awake send.
func (p *Pair) runPumps() {
	for e := range p.drivers {
		s := &p.drivers[e]
		if s.mode == Eager || s.wakeAt == 0 || s.wakeAt > p.now {
			continue
		}
		s.wakeAt = 0
		p.Ends[e].Tick(p.now)
		p.changed(e)
		p.sendDue(e)
		p.sleepUntilDeadline(e)
		if s.wakeAt == p.now {
			s.wakeAt++ // a deadline that has passed and made nothing due: time must go on
		}
	}
}

// sendDue sends for as long as something is due, as a reader does before it reads again.
func (p *Pair) sendDue(e int) {
	m := p.Ends[e].(dueMachine)
	for turns := 0; m.NextDue(); turns++ {
		if turns == maxSends {
			p.EmptySends[e]++
			return
		}
		if n := p.Ends[e].Next(p.now, p.buf); n > 0 {
			p.send(e, p.buf[:n])
		}
	}
	p.changed(e)
}
