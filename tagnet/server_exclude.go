package tagnet

import (
	"strings"

	"google.golang.org/grpc/codes"
)

// A builder unit that was excluded comes back in steps, since what was under way to it must be over, and its slots
// free, before tokens name them again:
//
//	IncludeBU: every readout unit has settled the exclusion ─► wanted
//	the unit, which tries now and then, attaches ─► refused with RefusedReset ─► asked: it frees its slots
//	the unit attaches once more ─► included
type welcome uint8

const (
	unwanted welcome = iota
	wanted
	asked
)

// ExcludeBU gives a builder unit no more tokens, cuts its stream and returns how many of its MEPs are issued again; see
// Core.ExcludeBU. One whose stream has broken is lost, see Core.LoseBU. The error is errUnknownUnit.
func (s *Server) ExcludeBU(name string) (reissued int, err error) { return s.exclude(name, false) }

// LoseBU is ExcludeBU for a builder unit that is known to be gone, whether its stream has broken yet or not.
func (s *Server) LoseBU(name string) (reissued int, err error) { return s.exclude(name, true) }

func (s *Server) exclude(name string, lost bool) (reissued int, err error) {
	unit, ok := s.bus[name]
	if !ok {
		return 0, errUnknownUnit
	}
	s.do(func() {
		broken := s.talks[Builder][unit].last != nil && !s.attached(Builder, unit)
		if lost || broken && !s.core.bus[unit].excluded {
			reissued, err = s.core.loseBU(unit)
		} else {
			reissued, err = s.core.ExcludeBU(unit)
		}
		s.welcome[unit] = unwanted
		s.cut(Builder, unit)
	})
	return reissued, err
}

// IncludeBU lets an excluded builder unit attach again, and gives it tokens when it has. It is refused with NotNow
// while a readout unit has not settled the exclusion, of a unit that is lost, and when drained. The error may be
// errUnknownUnit.
func (s *Server) IncludeBU(name string) (err error) {
	unit, ok := s.bus[name]
	if !ok {
		return errUnknownUnit
	}
	s.do(func() {
		b := &s.core.bus[unit]
		switch {
		case !b.excluded || s.welcome[unit] != unwanted:
		case s.talks[Builder][unit].last == nil: // it has nothing, and nobody has anything for it
			err = s.core.IncludeBU(unit)
		case b.lost || s.core.done():
			err = s.core.IncludeBU(unit) // which says why not
		default:
			if err = s.unsettled(unit); err == nil {
				s.welcome[unit] = wanted
			}
		}
	})
	return err
}

// unsettled refuses an inclusion that comes too early. The owner calls it.
func (s *Server) unsettled(unit int) error {
	rus := s.core.unsettled(unit)
	if len(rus) == 0 {
		return nil
	}
	return s.core.refuse(NotNow, s.cfg.Core.BUs[unit],
		"cannot be included yet: %s may still be writing to it, or has lost its link to it",
		strings.Join(rus, ", "))
}

// readmit takes an excluded builder unit that attaches a step further. A unit that was away while it was excluded and
// included has not freed its slots yet, and goes on with the number of its conversation. The owner calls it.
func (s *Server) readmit(unit int, number uint64) error {
	name, t := s.cfg.Core.BUs[unit], &s.talks[Builder][unit]
	t.away = false // it is there
	switch step := s.welcome[unit]; {
	case step == wanted, step == asked && number == t.number:
		s.welcome[unit] = asked
		return s.refuse(codes.FailedPrecondition, RefusedReset, name, "",
			"%s is included again: it is to free its slots and attach once more", name)
	case step == asked:
		s.welcome[unit] = unwanted
		if err := s.core.IncludeBU(unit); err == nil {
			return nil
		}
	}
	return s.refuse(codes.FailedPrecondition, RefusedExcluded, name, "", "builder unit %s is excluded", name)
}
