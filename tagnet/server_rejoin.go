package tagnet

import (
	"time"

	"google.golang.org/grpc/codes"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// A readout unit that was excluded comes back as another process, which knows nothing of what the one before it was
// told. It takes part from the moment at which it attaches, so nobody waits for one that never does:
//
//	IncludeRU ─► rejoin allowed
//	the unit attaches with a new session ─► included: its first batch names the cycle and the MEP of the rejoin
//	every builder unit says that it goes by the rejoin ─► new MEPs are issued
type rejoinPoint struct {
	absence      Absence // the rejoin; zero for a unit that was there from the beginning
	cutsBefore   uint64  // that were made of MEPs before the rejoin
	eventsBefore uint64  // in those MEPs
}

// IncludeRU lets an excluded readout unit attach again, and take part from then on. It is refused with NotNow when no
// new MEP will be issued. Twice is once. The error may be errUnknownUnit.
func (s *Server) IncludeRU(name string) (err error) {
	unit, ok := s.ruIndex[name]
	if !ok {
		return errUnknownUnit
	}
	s.runAsOwner(func() {
		if !s.core.rus[unit].excluded {
			return
		}
		if err = s.core.checkIncludeRU(); err == nil {
			s.rejoinAllowed[unit] = true
		}
	})
	return err
}

// admitRejoin begins the session of an excluded readout unit that is awaited. The owner calls it.
func (s *Server) admitRejoin(st *stream, number uint64) error {
	unit := st.unit
	if !s.rejoinAllowed[unit] {
		return s.refuse(codes.FailedPrecondition, RefusedExcluded, st.name, "", "%s %s is excluded", st.role, st.name)
	}
	s.rejoinAllowed[unit] = false
	if err := s.core.includeRU(unit); err != nil {
		return s.refuse(codes.FailedPrecondition, RefusedExcluded, st.name, "", "%s %s cannot come back: %v", st.role,
			st.name, err)
	}
	all := s.core.absencesSoFar()
	rejoin := rejoinPoint{absence: all[len(all)-1], eventsBefore: s.core.rus[unit].Events}
	rejoin.cutsBefore = rejoin.absence.FirstMEP - s.cfg.Core.FirstMEP
	s.sessions[Readout][unit] = unitSession{number: number, rejoin: rejoin}
	s.tokenLog.setAbsences(all) // its reader may be quicker than the next turn
	return nil
}

// timestampAbsences notes when readout units have gone or rejoined. The owner calls it.
func (s *Server) timestampAbsences() {
	for len(s.absenceTimes) < len(s.core.absencesSoFar()) {
		s.absenceTimes = append(s.absenceTimes, time.Now().UnixNano())
	}
}

// absenceSpans is the parts of the run that a readout unit was gone for. The owner calls it.
func (s *Server) absenceSpans(unit int) (all []*tagnetv1.Gone) {
	s.timestampAbsences()
	for i, a := range s.core.absencesSoFar() {
		switch {
		case int(a.RU) != unit:
		case !a.Rejoined:
			all = append(all, &tagnetv1.Gone{FromMep: a.FirstMEP, AtNs: s.absenceTimes[i]})
		default:
			last := all[len(all)-1]
			last.Back, last.BackMep, last.BackAtNs = true, a.FirstMEP, s.absenceTimes[i]
		}
	}
	return all
}
