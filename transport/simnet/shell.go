package simnet

import "time"

// A SendMode is when the owner of a machine lets it send.
type SendMode uint8

// SendModes.
const (
	// Eager asks for datagrams after every event, whether or not NextDue reports any.
	Eager SendMode = iota
	// Inline models a socket's reader in a process of one or two processors: the reader sends all that a read makes due
	// before it reads again. A pump keeps the time: it sleeps until the deadline that it knew when it fell asleep, or an
	// earlier one.
	Inline
	// Pumped models a process with more processors: the reader wakes the pump if datagrams are due, and the pump sends
	// them.
	Pumped
)

// dueMachine is what the modes Inline and Pumped need in addition.
type dueMachine interface{ NextDue() bool }

// wakeUpDelay is how long a pump takes to wake.
const wakeUpDelay = int64(20 * time.Microsecond)

// maxSends bounds the datagrams sent at once. A machine that exceeds it, by more than all windows together, reports
// datagrams due and sends none.
const maxSends = 1 << 14

// endDriver models the owner of one end.
type endDriver struct {
	mode   SendMode
	wakeAt int64 // when the pump wakes, ns; 0: when a datagram is due
}

// finishRead lets an owner send or wake its pump after its reader has read all that has arrived.
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

// sleepUntilDeadline bounds a pump's sleep by the machine's deadline.
func (p *Pair) sleepUntilDeadline(e int) {
	if d := p.Ends[e].Deadline(); d != 0 && (p.drivers[e].wakeAt == 0 || d < p.drivers[e].wakeAt) {
		p.drivers[e].wakeAt = max(d, p.now)
	}
}

// Wake wakes an owner's pump, after a request of the owner to the machine.
func (p *Pair) Wake(e int) {
	if p.drivers[e].mode != Eager {
		p.drivers[e].wakeAt = p.now
	}
}

// runPumps lets the pumps send that are awake.
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
			s.wakeAt++ // after a deadline that made nothing due, time must go on
		}
	}
}

// sendDue sends as long as datagrams are due, as a reader does before it reads again.
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
