package tagnet

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// A session of a unit outlives its stream: when that breaks, the unit makes another one and names what it has.
// The scheduler goes on from there, both ways, by sequence numbers. Meanwhile nobody fails: the others wait for what
// the unit holds, or go on without it.
//
//	attached ─► broken ─► resumed within ResumeTimeout ─► attached
//	               └────► not resumed ─► lost, which is reported
//
// A unit proves by its certificate that it is the one, and by the number of its session that it has not begun
// anew meanwhile: a process that was started again has forgotten what it was given.

// DefaultResumeTimeout is less than a barrier waits by default, 5 s, since readout units wait there for one whose
// tokens are late; and more than a switch takes to forget a port, or a connection to be made again, by far.
const DefaultResumeTimeout = 3 * time.Second

// unitSession is the scheduler's end of a unit's session. The owner owns it.
type unitSession struct {
	number       uint64  // of the session; 0: the unit has never attached
	stream       *stream // the newest stream, whether it is open or has broken
	streamBroken bool    // that has broken, and may be resumed
	lost         bool    // it cannot be resumed any more

	returnedTags, confirmedExclusions uint64 // tags and confirmed exclusions that a readout unit has told of

	rejoin rejoinPoint // of a readout unit that was excluded before
}

var errSuperseded = status.Error(codes.Aborted, "tagnet: the session has gone on over another stream")

// attach makes the stream of a unit, whose scope has been checked, known to the owner.
func (s *Server) attach(role Role, sc *tagnetv1.Scope, units map[string]int) (*stream, error) {
	unit, ok := units[sc.GetName()]
	switch {
	case !ok:
		return nil, s.refuse(codes.InvalidArgument, RefusedName, sc.GetName(), "", "view %d has no %s %q", s.cfg.View, role,
			sc.GetName())
	case sc.GetConversation() == 0:
		return nil, s.refuse(codes.InvalidArgument, RefusedMessage, 0, "a number", "%q has no number for its session",
			sc.GetName())
	}
	st := &stream{
		role:   role,
		name:   sc.GetName(),
		unit:   unit,
		wake:   make(chan struct{}, 1),
		closed: make(chan struct{}),
	}
	var err error
	s.runAsOwner(func() { err = s.admit(st, sc.GetConversation()) })
	return st, err
}

// admit begins a session or resumes it. The owner calls it.
func (s *Server) admit(st *stream, number uint64) error {
	role, unit := st.role, st.unit
	t := &s.sessions[role][unit]
	switch {
	case role == Readout && s.core.rus[unit].excluded:
		if err := s.admitRejoin(st, number); err != nil {
			return err
		}
	case role == Builder && s.core.bus[unit].excluded:
		if err := s.readmit(unit, number); err != nil {
			return err
		}
		*t = unitSession{number: number}
	case t.stream == nil:
		t.number = number
	case t.number != number:
		return s.refuse(codes.FailedPrecondition, RefusedSecondAttach, st.name, "",
			"%s %s has attached already; after a loss it needs a new view, or an exclusion and an inclusion", role, st.name)
	case t.lost:
		return s.refuse(codes.FailedPrecondition, RefusedSecondAttach, st.name, "",
			"%s %s was lost: its stream broke and was not resumed within %v", role, st.name, s.cfg.ResumeTimeout)
	default:
		s.resume(t, st)
	}
	t.stream, t.streamBroken, st.rejoin = st, false, t.rejoin
	s.streams[role][unit] = st
	s.startIfComplete()
	return nil
}

// resume lets a session go on over a new stream. The old one may not have broken yet for this end of it.
func (s *Server) resume(t *unitSession, st *stream) {
	s.core.counters.StreamsResumed++
	t.stream.close(errSuperseded)
	st.appliedEntries.Store(t.stream.appliedEntries.Load())
}

// detach makes the owner forget the stream. Unless it ended as it should its unit may resume, or is lost.
func (s *Server) detach(st *stream, err error) {
	s.runAsOwner(func() {
		if s.streams[st.role][st.unit] != st {
			return // excluded, or superseded: known
		}
		s.streams[st.role][st.unit] = nil
		t := &s.sessions[st.role][st.unit]
		if s.isClosing() || err == nil || errors.Is(err, errClosing) {
			return
		}
		switch refused := refusalInfo(err) != nil; {
		case st.hasMisbehaved(): // and that is reported
			t.lost = true
		case refused || s.cfg.ResumeTimeout < 0:
			s.reportLost(st, err)
		default:
			s.core.counters.StreamsBroken++
			t.streamBroken = true
			time.AfterFunc(s.cfg.ResumeTimeout, func() { s.post(nil, ownerInput{call: func() { s.expireResume(st, err) }}) })
		}
	})
}

func (s *Server) isClosing() bool { return isClosed(s.quit) }

// expireResume ends the time that the unit of a broken stream had. The owner calls it.
func (s *Server) expireResume(st *stream, err error) {
	t := &s.sessions[st.role][st.unit]
	if t.stream != st || !t.streamBroken {
		return // it has been resumed
	}
	t.streamBroken = false
	if st.role == Builder && s.core.bus[st.unit].excluded {
		_, _ = s.core.loseBU(st.unit) // the unit is known: it was excluded while nobody could say whether it is still there
		return
	}
	s.reportLost(st, fmt.Errorf("%w; it was not resumed within %v", err, s.cfg.ResumeTimeout))
}

// reportLost reports a unit as lost. The owner calls it.
func (s *Server) reportLost(st *stream, err error) {
	s.sessions[st.role][st.unit].lost = true
	if s.core.State() == Drained || st.role == Readout && s.core.rus[st.unit].excluded {
		return
	}
	incident := UnitLost
	if status.Code(err) == codes.InvalidArgument {
		incident = UnitMisbehaved
	}
	s.notices.addIncident(&UnitError{
		Role:     st.role,
		Unit:     st.name,
		Incident: incident,
		Err:      err,
	})
}

// isAttached tells that a unit takes part: its stream is open, or may still be resumed. The owner calls it.
func (s *Server) isAttached(role Role, unit int) bool {
	return s.streams[role][unit] != nil || s.sessions[role][unit].streamBroken
}

// hasMisbehaved tells that the owner closed the stream, and has reported why.
func (st *stream) hasMisbehaved() bool { return isClosed(st.closed) }

// cutMisbehaving ends the stream of a unit that has told what cannot be, and reports it. The owner calls it.
func (s *Server) cutMisbehaving(st *stream, why Refusal, got, want any, err error) {
	s.notices.addIncident(&UnitError{
		Role:     st.role,
		Unit:     st.name,
		Incident: UnitMisbehaved,
		Err:      err,
	})
	st.close(s.refuse(codes.InvalidArgument, why, got, want, "%v", err))
}
