package simnet

import "time"

// A Shell is how the owner of a machine goes about sending.
type Shell uint8

// Shells.
const (
	// Eager asks for datagrams whenever anything has happened, whether or not any is said to be due.
	Eager Shell = iota
	// Inline is the reader of a socket in a process of one or two processors: what a read makes due it sends before it
	// reads again, for as long as something is due. Time is kept by a pump, which sleeps until the deadline that it
	// knew when it lay down, or an earlier one.
	Inline
	// Pumped is a process of more processors: the reader wakes the pump if something is due, and the pump sends.
	Pumped
)

// Due is asked for by the shells Inline and Pumped.
type dueMachine interface{ Due() bool }

// wakeUp is how long a pump takes to wake.
const wakeUp = int64(20 * time.Microsecond)

// mostTurns bounds what is sent in one go. More than all windows together hold is a machine that says that something is
// due, and sends nothing.
const mostTurns = 1 << 14

// shell is the owner of one end.
type shell struct {
	kind Shell
	wake int64 // when the pump wakes, ns; 0: it sleeps until something is due
}

// read tells a shell that its reader has taken what was at hand.
func (p *Pair) read(e int) {
	due := p.Ends[e].(dueMachine).Due()
	switch s := &p.shells[e]; {
	case s.kind == Inline && due:
		p.send(e)
	case due:
		s.wake = p.now + wakeUp
	}
	p.lie(e)
}

// lie has a pump sleep no longer than until the deadline.
func (p *Pair) lie(e int) {
	if d := p.Ends[e].Deadline(); d != 0 && (p.shells[e].wake == 0 || d < p.shells[e].wake) {
		p.shells[e].wake = max(d, p.now)
	}
}

// Stir tells a shell that its owner has asked the machine for something.
func (p *Pair) Stir(e int) {
	if p.shells[e].kind != Eager {
		p.shells[e].wake = p.now
	}
}

// pump lets the pumps that are awake send.
func (p *Pair) pump() {
	for e := range p.shells {
		s := &p.shells[e]
		if s.kind == Eager || s.wake == 0 || s.wake > p.now {
			continue
		}
		s.wake = 0
		p.Ends[e].Tick(p.now)
		p.stirred(e)
		p.send(e)
		p.lie(e)
		if s.wake == p.now {
			s.wake++ // a deadline that has passed and made nothing due: time must go on
		}
	}
}

// send sends for as long as something is due, as a reader does before it reads again.
func (p *Pair) send(e int) {
	m := p.Ends[e].(dueMachine)
	for turns := 0; m.Due(); turns++ {
		if turns == mostTurns {
			p.Spun[e]++
			return
		}
		if n := p.Ends[e].Next(p.now, p.buf); n > 0 {
			p.launch(e, p.buf[:n])
		}
	}
	p.stirred(e)
}
