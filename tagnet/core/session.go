package core

import (
	"fmt"
	"strings"
)

// Unit names a unit of the view.
type Unit struct {
	Role  Role
	Index int
}

// session is the scheduler's end of a unit's session. It outlives its stream: when the stream breaks, the unit opens
// another one and names how far it has come. Both ends continue from there by sequence numbers. Meanwhile no unit
// fails: the other units wait for what this unit holds, or go on without it.
//
//	open ─► broken ─► resumed within Settings.ResumeTimeout ─► open
//	           └────► not resumed ─► lost, which is reported
//
// By its certificate a unit proves that it is the unit of that name. By the number of its session it proves that it has
// not begun anew meanwhile: a process that was started again has forgotten what the scheduler sent it.
type session struct {
	number uint64 // of the session
	stream uint64 // the newest one
	link   link
	lost   bool // the session cannot be resumed any more

	known []Notice // snapshot that the session got first
	next  uint64   // sequence number of the notice from which the session then got the stream
	taken uint64   // entries that the Core has taken: outcomes of a builder unit, returned tags of a readout unit

	unacked   int  // entries taken since the unit last got an acknowledgement
	asksTaken bool // the builder unit has asked for an acknowledgement

	// of a readout unit that has rejoined: the first MEP that it has a part in again, and the events before that MEP
	firstMEP, eventsBefore uint64
	readmission            readmission // of a unit that is excluded
}

type link uint8

const (
	linkNone   link = iota // the unit has never attached
	linkOpen               // its stream is open
	linkBroken             // its stream broke, and the unit may resume
	linkDown               // its stream has ended, or the scheduler has cut it
)

// A builder unit that was excluded comes back in steps: before tokens name its slots again, the writes under way to it
// must have ended and its slots must be free:
//
//	include: every readout unit has confirmed the exclusion ─► wanted
//	the unit, which tries now and then, attaches ─► refused with RefusedUntilReset ─► reset requested: it frees its slots
//	the unit attaches once more ─► included
//
// A lost builder unit comes back as another process, whose slots are free: it is included when it attaches.
//
// A readout unit that was excluded comes back as another process, which knows nothing of what the scheduler told the
// former one. It takes part from the moment at which it attaches, so no other unit waits for one that never does:
//
//	include ─► wanted
//	the unit attaches with a new session ─► included: its snapshot names the cycle and the MEP of the rejoin
//	every builder unit has acknowledged the rejoin ─► new MEPs are issued
type readmission uint8

const (
	readmissionNotWanted readmission = iota
	readmissionWanted
	readmissionResetRequested
)

func (c *Core) session(u Unit) *session { return &c.sessions[u.Role][u.Index] }

func (c *Core) name(u Unit) string {
	if u.Role == Readout {
		return c.set.View.RUs[u.Index]
	}
	return c.set.View.BUs[u.Index]
}

// isExcluded tells whether a unit is excluded.
func (c *Core) isExcluded(u Unit) bool {
	if u.Role == Readout {
		return c.alloc.rus[u.Index].excluded
	}
	return c.alloc.bus[u.Index].excluded
}

// isAttached tells that a unit takes part: its stream is open, or may still be resumed.
func (s *session) isAttached() bool { return s.link == linkOpen || s.link == linkBroken }

// missingUnits lists the units that have never attached and are not excluded.
func (c *Core) missingUnits() (out []Unit) {
	for role := range c.sessions {
		for i := range c.sessions[role] {
			if u := (Unit{Role(role), i}); c.sessions[role][i].link == linkNone && !c.isExcluded(u) {
				out = append(out, u)
			}
		}
	}
	return out
}

// startIfComplete starts once every unit that is not excluded has attached.
func (c *Core) startIfComplete() {
	if !c.alloc.started && len(c.missingUnits()) == 0 {
		c.alloc.Start()
	}
}

// wasPublished tells that a unit may have come to a position: the one comparison before a session resumes.
func (c *Core) wasPublished(p Position) bool {
	return p.Term == c.set.Term && p.Next > 0 && p.Next <= c.next
}

// Attach is a new stream of a unit, which begins a session or resumes one.
type Attach struct {
	Unit    Unit
	Stream  uint64 // its number: no other stream has it
	Session uint64 // number of the session, not 0
	Had     Position
	Recall  *Recall // for the successor of a lost scheduler; nil: the unit has not lost its scheduler
}

func (in Attach) step(c *Core) (a Answer) {
	if c.succession != nil {
		return c.succession.attach(c, &in)
	}
	s := c.session(in.Unit)
	resumes := false
	switch {
	case in.Unit.Role == Readout && c.isExcluded(in.Unit):
		a.Err = c.rejoin(in)
	case c.isExcluded(in.Unit):
		a.Err = c.readmit(in)
	case s.link == linkNone:
	case s.number != in.Session:
		a.Err = c.refuseSession(RefusedSecondAttach, in.Unit,
			"has attached already; after a loss it needs a new view, or an exclusion and an inclusion")
	case s.lost:
		a.Err = c.refuseSession(RefusedSecondAttach, in.Unit, "was lost: its stream broke and was not resumed within %v",
			c.set.ResumeTimeout)
	case in.Had != (Position{}) && !c.wasPublished(in.Had):
		a.Err = c.refuseSession(RefusedMessage, in.Unit, "names a position in the notices that was never sent to it")
	default:
		resumes = true
		c.alloc.counters.StreamsResumed++
		c.end(in.Unit, ErrSuperseded) // the scheduler may not have noticed yet that the former stream broke
	}
	if a.Err != nil {
		return a
	}
	if !resumes {
		c.publish(Batch{FirstCycle: c.alloc.nextCycle, PlacesPerCycle: c.alloc.placesPerCycle}, nil)
		s.number, s.next, s.known = in.Session, c.next, c.snapshot(max(s.firstMEP, c.set.View.FirstMEP))
		if in.Unit.Role == Readout {
			s.known[0].Earlier = c.alloc.earlierTokens(c.alloc.nextCycle)
		}
	}
	s.link, s.stream = linkOpen, in.Stream
	c.startIfComplete()
	a.Next, a.Taken = in.Had.Next, s.taken
	if !resumes || in.Had == (Position{}) {
		a.Known, a.Next = s.known, s.next
	}
	return a
}

// rejoin begins the session of an excluded readout unit whose return is wanted.
func (c *Core) rejoin(in Attach) error {
	s, unit := c.session(in.Unit), in.Unit.Index
	if s.readmission != readmissionWanted {
		return c.refuseSession(RefusedExcluded, in.Unit, "is excluded")
	}
	s.readmission = readmissionNotWanted
	if err := c.alloc.includeRU(unit); err != nil {
		return c.refuseSession(RefusedExcluded, in.Unit, "cannot come back: %v", err)
	}
	*s = session{firstMEP: c.alloc.nextMEP, eventsBefore: c.alloc.rus[unit].Events}
	return nil
}

// readmit takes an excluded builder unit that attaches one step further. A unit that was away while it was excluded and
// included comes with the number of its old session: it has not freed its slots yet.
func (c *Core) readmit(in Attach) error {
	s := c.session(in.Unit)
	if s.link == linkBroken {
		s.link = linkDown // the unit has come back before ResumeOver
	}
	switch step, lost := s.readmission, c.alloc.bus[in.Unit.Index].lost; {
	case lost && in.Session == s.number: // the former process, which is over for this run
	case step == readmissionWanted && !lost, step == readmissionResetRequested && in.Session == s.number:
		s.readmission = readmissionResetRequested
		return c.refuseSession(RefusedUntilReset, in.Unit, "is included again: it is to free its slots and attach once more")
	case step == readmissionResetRequested, step == readmissionWanted:
		s.readmission = readmissionNotWanted
		if err := c.alloc.IncludeBU(in.Unit.Index); err == nil {
			*s = session{}
			return nil
		}
	}
	return c.refuseSession(RefusedExcluded, in.Unit, "is excluded")
}

// refuseSession makes the error that refuses or ends a session; the unit is the subject of its sentence.
func (c *Core) refuseSession(why Refusal, u Unit, format string, args ...any) error {
	return &SessionError{why, c.name(u), "", fmt.Sprintf("%s %s %s", u.Role, c.name(u), fmt.Sprintf(format, args...))}
}

// end ends the stream of a unit, if it is open.
func (c *Core) end(u Unit, why error) {
	s := c.session(u)
	if s.link == linkOpen {
		c.ready.Ended = append(c.ready.Ended, Ended{s.stream, why})
		s.link = linkDown
	}
}

// cutMisbehaving ends the session of a unit that reported what cannot be true, and reports the unit to the control.
func (c *Core) cutMisbehaving(u Unit, why Refusal, got, want any, err error) {
	c.report(u, UnitMisbehaved, err)
	c.end(u, &SessionError{why, got, want, err.Error()})
	c.session(u).lost = true
}

// cutExcluded ends the stream of a unit that has just been excluded.
func (c *Core) cutExcluded(u Unit) {
	c.session(u).readmission = readmissionNotWanted
	c.end(u, c.refuseSession(RefusedExcluded, u, "has been excluded"))
	c.startIfComplete()
}

// Detached is the end of a stream.
type Detached struct {
	Unit   Unit
	Stream uint64
	Err    error // nil: the unit ended it in order
	// Final: the unit cannot resume its session, and Incident is reported.
	Final    bool
	Incident Incident
}

func (in Detached) step(c *Core) (a Answer) {
	if c.succession != nil {
		c.succession.detach(&in)
		return a
	}
	s := c.session(in.Unit)
	switch {
	case s.link != linkOpen || s.stream != in.Stream: // the unit was excluded, cut or has resumed: the core knows
	case in.Err == nil:
		s.link = linkDown
	case in.Final || c.set.ResumeTimeout < 0:
		c.lose(in.Unit, in.Incident, in.Err)
	default:
		c.alloc.counters.StreamsBroken++
		s.link = linkBroken
		c.ready.Broken = append(c.ready.Broken, Broken{in.Unit, in.Stream, in.Err})
	}
	return a
}

// ResumeOver is the end of the time in which the unit of a broken stream could resume.
type ResumeOver Broken

func (in ResumeOver) step(c *Core) (a Answer) {
	s := c.session(in.Unit)
	switch {
	case s.link != linkBroken || s.stream != in.Stream: // the unit has resumed
	case in.Unit.Role == Builder && c.isExcluded(in.Unit):
		s.link = linkDown
		// The control excluded the unit while its stream was broken, so as one that might come back: now it is lost.
		_, a.Err = c.alloc.ExcludeBU(in.Unit.Index, true)
	default:
		c.lose(in.Unit, UnitLost, fmt.Errorf("%w; it was not resumed within %v", in.Err, c.set.ResumeTimeout))
	}
	return a
}

// lose ends a session that cannot be resumed, and reports the incident.
func (c *Core) lose(u Unit, what Incident, err error) {
	s := c.session(u)
	s.link, s.lost = linkDown, true
	if c.alloc.State() != Drained && (u.Role != Readout || !c.isExcluded(u)) {
		c.report(u, what, err)
	}
}

// excludeBU gives a builder unit no more tokens and ends its stream. A unit whose session had ended before is lost.
func (c *Core) excludeBU(unit int, lost bool) (reissued int, err error) {
	u := Unit{Builder, unit}
	s := c.session(u)
	isDown := s.link == linkDown && !c.isExcluded(u)
	reissued, err = c.alloc.ExcludeBU(unit, lost || isDown)
	c.cutExcluded(u)
	return reissued, err
}

// includeBU lets an excluded builder unit attach again, and gives it tokens once it has. It is refused with NotNow when
// drained, and while a readout unit has not confirmed the exclusion. A lost unit is refused: its former process would
// attach, to which readout units have no links any more.
func (c *Core) includeBU(unit int) error {
	b, s := &c.alloc.bus[unit], c.session(Unit{Builder, unit})
	switch {
	case !b.excluded || s.readmission != readmissionNotWanted:
		return nil
	case c.alloc.drained():
		return c.alloc.refuseInState("include a builder unit")
	case b.lost:
		return c.alloc.refuse(NotNow, c.set.View.BUs[unit], "cannot be included, since it was lost: it comes back by itself "+
			"as another process")
	case s.link == linkNone:
		return c.alloc.IncludeBU(unit) // it never attached and so has no tokens
	}
	if rus := c.alloc.unconfirmedRUs(unit); len(rus) > 0 {
		return c.alloc.refuse(NotNow, c.set.View.BUs[unit],
			"cannot be included yet: %s may still be writing to it, or has lost its link to it", strings.Join(rus, ", "))
	}
	s.readmission = readmissionWanted
	return nil
}

// readmitBU lets a lost builder unit attach as another process; the caller knows that readout units have their links to
// it. One that is not lost is included.
func (c *Core) readmitBU(unit int) error {
	switch {
	case !c.alloc.bus[unit].lost:
		return c.includeBU(unit)
	case c.alloc.drained():
		return c.alloc.refuseInState("include a builder unit")
	}
	c.session(Unit{Builder, unit}).readmission = readmissionWanted
	return nil
}

// ExcludeRU goes on without a readout unit and ends its stream.
func (c *Core) excludeRU(unit int) error {
	err := c.alloc.ExcludeRU(unit)
	if err == nil {
		c.cutExcluded(Unit{Readout, unit})
	}
	return err
}

// includeRU lets an excluded readout unit attach again, and take part from then on. It is refused with NotNow when no
// new MEPs will be issued. A second call does nothing.
func (c *Core) includeRU(unit int) error {
	if !c.alloc.rus[unit].excluded {
		return nil
	}
	err := c.alloc.checkIncludeRU()
	if err == nil {
		c.session(Unit{Readout, unit}).readmission = readmissionWanted
	}
	return err
}

// CountRepeated serves the receiver of entries that the sender repeats until they are acknowledged. Of n entries from
// number first on, before is how many the receiver has applied already, given that it has applied that many in all. ok
// is false if entries are missing between the last one applied and first.
func CountRepeated(applied, first uint64, n int) (before int, ok bool) {
	if first > applied {
		return 0, false
	}
	return int(min(applied-first, uint64(n))), true
}
