package core

import (
	"fmt"
	"strings"
)

// Unit is a unit of the view.
type Unit struct {
	Role  Role
	Index int
}

// session is the scheduler's end of a unit's session. It outlives its stream: when that breaks, the unit makes another
// one and names how far it has come. The scheduler goes on from there, both ways, by sequence numbers. Meanwhile nobody
// fails: the others wait for what the unit holds, or go on without it.
//
//	open ─► broken ─► resumed within Settings.ResumeTimeout ─► open
//	           └────► not resumed ─► lost, which is reported
//
// A unit proves by its certificate that it is the one, and by the number of its session that it has not begun anew
// meanwhile: a process that was started again has forgotten what it was given.
type session struct {
	number uint64 // of the session
	stream uint64 // the newest one
	link   link
	lost   bool // it cannot be resumed any more

	known []Notice // what it was told at first
	next  uint64   // and from which notice on it had the stream
	taken uint64   // entries of the session: outcomes of a builder unit, returned tags of a readout unit

	unacked   int  // entries that were taken since its unit was last told
	asksTaken bool // who sent them asks

	// of a readout unit that was excluded before: the first MEP that it has a part in again, and the events before
	firstMEP, eventsBefore uint64
	readmission            readmission // of a unit that is excluded
}

type link uint8

const (
	linkNone   link = iota // the unit has never attached
	linkOpen               // its stream is open
	linkBroken             // it broke, and may be resumed
	linkDown               // it has ended, or was cut
)

// A builder unit that was excluded comes back in steps, since what was under way to it must be over, and its slots
// free, before tokens name them again:
//
//	include: every readout unit has confirmed the exclusion ─► wanted
//	the unit, which tries now and then, attaches ─► refused with RefusedUntilReset ─► reset requested: it frees its slots
//	the unit attaches once more ─► included
//
// A readout unit that was excluded comes back as another process, which knows nothing of what the one before it was
// told. It takes part from the moment at which it attaches, so nobody waits for one that never does:
//
//	include ─► wanted
//	the unit attaches with a new session ─► included: what it is told at first names the cycle and the MEP of the rejoin
//	every builder unit says that it goes by the rejoin ─► new MEPs are issued
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

// isExcluded tells whether a unit is.
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

// wasPublished tells that a position is one that somebody may have come to: the one comparison of whoever resumes.
func (c *Core) wasPublished(p Position) bool {
	return p.Term == c.set.Term && p.Next > 0 && p.Next <= c.next
}

// Attach is a new stream of a unit.
type Attach struct {
	Unit    Unit
	Stream  uint64 // its number: no other stream has it
	Session uint64 // number of the session, not 0
	Had     Position
}

func (in Attach) step(c *Core) (a Answer) {
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
		a.Err = c.refuseSession(RefusedMessage, in.Unit, "says it has had what was never sent to it")
	default:
		resumes = true
		c.alloc.counters.StreamsResumed++
		c.end(in.Unit, ErrSuperseded) // it may not have broken yet for this end of it
	}
	if a.Err != nil {
		return a
	}
	if !resumes {
		c.publish(Batch{FirstCycle: c.alloc.nextCycle, PlacesPerCycle: c.alloc.placesPerCycle}, nil)
		s.number, s.next, s.known = in.Session, c.next, c.snapshot(max(s.firstMEP, c.set.View.FirstMEP))
	}
	s.link, s.stream = linkOpen, in.Stream
	c.startIfComplete()
	a.Next, a.Taken = in.Had.Next, s.taken
	if !resumes || in.Had == (Position{}) {
		a.Known, a.Next = s.known, s.next
	}
	return a
}

// rejoin begins the session of an excluded readout unit that is awaited.
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

// readmit takes an excluded builder unit that attaches a step further. A unit that was away while it was excluded and
// included has not freed its slots yet, and goes on with the number of its session.
func (c *Core) readmit(in Attach) error {
	s := c.session(in.Unit)
	if s.link == linkBroken {
		s.link = linkDown // it is there
	}
	switch step := s.readmission; {
	case step == readmissionWanted, step == readmissionResetRequested && in.Session == s.number:
		s.readmission = readmissionResetRequested
		return c.refuseSession(RefusedUntilReset, in.Unit, "is included again: it is to free its slots and attach once more")
	case step == readmissionResetRequested:
		s.readmission = readmissionNotWanted
		if err := c.alloc.IncludeBU(in.Unit.Index); err == nil {
			*s = session{}
			return nil
		}
	}
	return c.refuseSession(RefusedExcluded, in.Unit, "is excluded")
}

// refuseSession refuses a session, or ends it, with a sentence of which the unit is the subject.
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

// cutMisbehaving ends the session of a unit that has told what cannot be, and reports it.
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
	Err    error // nil: it ended as it should
	// Final: the session cannot be resumed. Incident says what it is then.
	Final    bool
	Incident Incident
}

func (in Detached) step(c *Core) (a Answer) {
	s := c.session(in.Unit)
	switch {
	case s.link != linkOpen || s.stream != in.Stream: // excluded, cut or superseded: known
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

// ResumeOver is the end of the time that the unit of a broken stream had.
type ResumeOver Broken

func (in ResumeOver) step(c *Core) (a Answer) {
	s := c.session(in.Unit)
	switch {
	case s.link != linkBroken || s.stream != in.Stream: // it has been resumed
	case in.Unit.Role == Builder && c.isExcluded(in.Unit):
		s.link = linkDown
		// The unit is known: it was excluded while nobody could say whether it is still there.
		_, a.Err = c.alloc.ExcludeBU(in.Unit.Index, true)
	default:
		c.lose(in.Unit, UnitLost, fmt.Errorf("%w; it was not resumed within %v", in.Err, c.set.ResumeTimeout))
	}
	return a
}

// lose gives a session up, and reports it.
func (c *Core) lose(u Unit, what Incident, err error) {
	s := c.session(u)
	s.link, s.lost = linkDown, true
	if c.alloc.State() != Drained && (u.Role != Readout || !c.isExcluded(u)) {
		c.report(u, what, err)
	}
}

// ExcludeBU gives a builder unit no more tokens and cuts its stream. One whose stream has broken is lost.
func (c *Core) excludeBU(unit int, lost bool) (reissued int, err error) {
	u := Unit{Builder, unit}
	s := c.session(u)
	isDown := s.link == linkDown && !c.isExcluded(u)
	reissued, err = c.alloc.ExcludeBU(unit, lost || isDown)
	c.cutExcluded(u)
	return reissued, err
}

// includeBU lets an excluded builder unit attach again, and gives it tokens when it has. It is refused with NotNow
// while a readout unit has not confirmed the exclusion, of a unit that is lost, and when drained.
func (c *Core) includeBU(unit int) error {
	b, s := &c.alloc.bus[unit], c.session(Unit{Builder, unit})
	switch {
	case !b.excluded || s.readmission != readmissionNotWanted:
		return nil
	case s.link == linkNone, b.lost, c.alloc.drained():
		return c.alloc.IncludeBU(unit) // it has nothing, and nobody has anything for it; or it says why not
	}
	if rus := c.alloc.unconfirmedRUs(unit); len(rus) > 0 {
		return c.alloc.refuse(NotNow, c.set.View.BUs[unit],
			"cannot be included yet: %s may still be writing to it, or has lost its link to it", strings.Join(rus, ", "))
	}
	s.readmission = readmissionWanted
	return nil
}

// excludeRU goes on without a readout unit and cuts its stream.
func (c *Core) excludeRU(unit int) error {
	err := c.alloc.excludeRU(unit)
	if err == nil {
		c.cutExcluded(Unit{Readout, unit})
	}
	return err
}

// includeRU lets an excluded readout unit attach again, and take part from then on. It is refused with NotNow when no
// new MEP will be issued. Twice is once.
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

// CountRepeated is the other end of whoever keeps what was not acknowledged: of n entries from number first on, as many
// were taken before as it tells. False: entries are missing between those that were taken and the first.
func CountRepeated(applied, first uint64, n int) (before int, ok bool) {
	if first > applied {
		return 0, false
	}
	return int(min(applied-first, uint64(n))), true
}
