package tagnet

import (
	"time"

	"google.golang.org/grpc/codes"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// A readout unit that was excluded comes back as another process, which knows nothing of what the one before it was
// told. It takes part from the moment at which it attaches, so nobody waits for one that never does:
//
//	IncludeRU ─► awaited
//	the unit attaches with a new conversation ─► included: its first batch names the cycle and the MEP of the return
//	every builder unit says that it goes by the return ─► new MEPs are issued
type comeback struct {
	absence Absence // the return; zero for a unit that was there from the beginning
	cuts    uint64  // that were made of MEPs before the return
	events  uint64  // in those MEPs
}

// IncludeRU lets an excluded readout unit attach again, and take part from then on. It is refused with NotNow when no
// new MEP will be issued. Twice is once. The error may be errUnknownUnit.
func (s *Server) IncludeRU(name string) (err error) {
	unit, ok := s.rus[name]
	if !ok {
		return errUnknownUnit
	}
	s.do(func() {
		if !s.core.rus[unit].excluded {
			return
		}
		if err = s.core.mayIncludeRU(); err == nil {
			s.awaited[unit] = true
		}
	})
	return err
}

// comeBack begins the conversation of an excluded readout unit that is awaited. The owner calls it.
func (s *Server) comeBack(st *stream, number uint64) error {
	unit := st.unit
	if !s.awaited[unit] {
		return s.refuse(codes.FailedPrecondition, RefusedExcluded, st.name, "", "%s %s is excluded", st.role, st.name)
	}
	s.awaited[unit] = false
	if err := s.core.includeRU(unit); err != nil {
		return s.refuse(codes.FailedPrecondition, RefusedExcluded, st.name, "", "%s %s cannot come back: %v", st.role,
			st.name, err)
	}
	all := s.core.changes()
	back := comeback{absence: all[len(all)-1], events: s.core.rus[unit].Events}
	back.cuts = back.absence.MEP - s.cfg.Core.First
	s.talks[Readout][unit] = talk{number: number, back: back}
	s.log.goBy(all) // its reader may be quicker than the next turn
	return nil
}

// noteChanges notes when readout units have gone or come back. The owner calls it.
func (s *Server) noteChanges() {
	for len(s.changedAt) < len(s.core.changes()) {
		s.changedAt = append(s.changedAt, time.Now().UnixNano())
	}
}

// gone is the parts of the run that a readout unit was gone for. The owner calls it.
func (s *Server) gone(unit int) (all []*tagnetv1.Gone) {
	s.noteChanges()
	for i, a := range s.core.changes() {
		switch {
		case int(a.RU) != unit:
		case !a.Back:
			all = append(all, &tagnetv1.Gone{FromMep: a.MEP, AtNs: s.changedAt[i]})
		default:
			last := all[len(all)-1]
			last.Back, last.BackMep, last.BackAtNs = true, a.MEP, s.changedAt[i]
		}
	}
	return all
}
