package tagnet

import (
	"strings"

	"google.golang.org/grpc/codes"
)

// A builder unit that was excluded comes back in steps, since what was under way to it must be over, and its slots
// free, before tokens name them again:
//
//	IncludeBU: every readout unit has confirmed the exclusion ─► wanted
//	the unit, which tries now and then, attaches ─► refused with RefusedUntilReset ─► reset requested: it frees its slots
//	the unit attaches once more ─► included
type readmission uint8

const (
	readmissionNotWanted readmission = iota
	readmissionWanted
	readmissionResetRequested
)

// ExcludeBU gives a builder unit no more tokens, cuts its stream and returns how many of its MEPs are issued again; see
// Core.ExcludeBU. One whose stream has broken is lost, see Core.loseBU. The error is errUnknownUnit.
func (s *Server) ExcludeBU(name string) (reissued int, err error) { return s.exclude(name, false) }

// LoseBU is ExcludeBU for a builder unit that is known to be gone, whether its stream has broken yet or not.
func (s *Server) LoseBU(name string) (reissued int, err error) { return s.exclude(name, true) }

func (s *Server) exclude(name string, lost bool) (reissued int, err error) {
	unit, ok := s.buIndex[name]
	if !ok {
		return 0, errUnknownUnit
	}
	s.runAsOwner(func() {
		isBroken := s.sessions[Builder][unit].stream != nil && !s.isAttached(Builder, unit)
		if lost || isBroken && !s.core.bus[unit].excluded {
			reissued, err = s.core.loseBU(unit)
		} else {
			reissued, err = s.core.ExcludeBU(unit)
		}
		s.readmissions[unit] = readmissionNotWanted
		s.cutStream(Builder, unit)
	})
	return reissued, err
}

// IncludeBU lets an excluded builder unit attach again, and gives it tokens when it has. It is refused with NotNow
// while a readout unit has not confirmed the exclusion, of a unit that is lost, and when drained. The error may be
// errUnknownUnit.
func (s *Server) IncludeBU(name string) (err error) {
	unit, ok := s.buIndex[name]
	if !ok {
		return errUnknownUnit
	}
	s.runAsOwner(func() {
		b := &s.core.bus[unit]
		switch {
		case !b.excluded || s.readmissions[unit] != readmissionNotWanted:
		case s.sessions[Builder][unit].stream == nil: // it has nothing, and nobody has anything for it
			err = s.core.IncludeBU(unit)
		case b.lost || s.core.drained():
			err = s.core.IncludeBU(unit) // which says why not
		default:
			if err = s.checkConfirmed(unit); err == nil {
				s.readmissions[unit] = readmissionWanted
			}
		}
	})
	return err
}

// checkConfirmed refuses an inclusion that comes too early. The owner calls it.
func (s *Server) checkConfirmed(unit int) error {
	rus := s.core.unconfirmedRUs(unit)
	if len(rus) == 0 {
		return nil
	}
	return s.core.refuse(NotNow, s.cfg.Core.BUs[unit],
		"cannot be included yet: %s may still be writing to it, or has lost its link to it",
		strings.Join(rus, ", "))
}

// readmit takes an excluded builder unit that attaches a step further. A unit that was away while it was excluded and
// included has not freed its slots yet, and goes on with the number of its session. The owner calls it.
func (s *Server) readmit(unit int, number uint64) error {
	name, t := s.cfg.Core.BUs[unit], &s.sessions[Builder][unit]
	t.streamBroken = false // it is there
	switch step := s.readmissions[unit]; {
	case step == readmissionWanted, step == readmissionResetRequested && number == t.number:
		s.readmissions[unit] = readmissionResetRequested
		return s.refuse(codes.FailedPrecondition, RefusedUntilReset, name, "",
			"%s is included again: it is to free its slots and attach once more", name)
	case step == readmissionResetRequested:
		s.readmissions[unit] = readmissionNotWanted
		if err := s.core.IncludeBU(unit); err == nil {
			return nil
		}
	}
	return s.refuse(codes.FailedPrecondition, RefusedExcluded, name, "", "builder unit %s is excluded", name)
}
