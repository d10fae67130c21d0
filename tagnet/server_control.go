package tagnet

import (
	"errors"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/grpc/codes"

	"ringlet/internal/histogram"
)

// errUnknownUnit is the error of an operation on a unit that the view does not have.
var errUnknownUnit = errors.New("tagnet: the view has no such unit")

// startIfComplete starts the core once every unit that is not excluded has attached. The owner calls it.
func (s *Server) startIfComplete() {
	if s.core.started || len(s.missingUnits()) > 0 {
		return
	}
	s.core.Start()
}

// missingUnits lists the units that have never attached and are not excluded. The owner calls it.
func (s *Server) missingUnits() (out []*UnitError) {
	for role, names := range [][]string{s.cfg.Core.RUs, s.cfg.Core.BUs} {
		for unit, name := range names {
			if s.sessions[role][unit].stream == nil && !s.isExcluded(Role(role), unit) {
				out = append(out, &UnitError{Role: Role(role), Unit: name, Incident: UnitMissing})
			}
		}
	}
	return out
}

// isExcluded tells whether a unit is. The owner calls it.
func (s *Server) isExcluded(role Role, unit int) bool {
	if role == Readout {
		return s.core.rus[unit].excluded
	}
	return s.core.bus[unit].excluded
}

func (s *Server) reportMissing() {
	if s.core.started {
		return
	}
	for _, e := range s.missingUnits() {
		s.notices.addIncident(e)
	}
}

// Pause issues nothing more until Resume; see Core.Pause.
func (s *Server) Pause() (err error) {
	s.runAsOwner(func() { err = s.core.Pause() })
	return err
}

// Resume ends a pause; see Core.Resume.
func (s *Server) Resume() (err error) {
	s.runAsOwner(func() { err = s.core.Resume() })
	return err
}

// Drain issues no new MEP from end on, 0 meaning none at all; see Core.Drain. Drained tells when it is over.
func (s *Server) Drain(end uint64) { s.runAsOwner(func() { s.core.Drain(end) }) }

// Abandon ends the view at once and returns the number of MEPs that got no better outcome; see Core.abandon.
func (s *Server) Abandon() (meps int) {
	s.runAsOwner(func() { meps = s.core.abandon() })
	return meps
}

// ExcludeRU goes on without a readout unit and cuts its stream, unless Core.excludeRU refuses.
func (s *Server) ExcludeRU(name string) (err error) {
	unit, ok := s.ruIndex[name]
	if !ok {
		return errUnknownUnit
	}
	s.runAsOwner(func() {
		if err = s.core.excludeRU(unit); err == nil {
			s.rejoinAllowed[unit] = false
			s.cutStream(Readout, unit)
		}
	})
	return err
}

// cutStream ends the stream of a unit that has just been excluded. The owner calls it.
func (s *Server) cutStream(role Role, unit int) {
	if st := s.streams[role][unit]; st != nil {
		s.streams[role][unit] = nil
		st.close(s.refuse(codes.Aborted, RefusedExcluded, st.name, "", "%s %s has been excluded", role, st.name))
	}
	s.startIfComplete()
}

// Registers reads all registers at once.
func (s *Server) Registers() (r *Registers) {
	var latency *hdrhistogram.Histogram
	s.runAsOwner(func() {
		r = s.core.Registers()
		for i, u := range r.GetRus() {
			u.Attached, u.Gone = s.isAttached(Readout, i), s.absenceSpans(i)
		}
		for j, u := range r.GetBus() {
			u.Attached = s.isAttached(Builder, j)
		}
		r.FirstTokenNs, r.LastMepNs = s.unixNano(s.timing.firstTokenAt), s.unixNano(s.timing.lastMEPAt)
		latency, r.LatencyClipped = s.timing.latency.Clone(), s.timing.clippedLatencies
	})
	r.Run, r.View = s.cfg.Run, s.cfg.View
	r.Latency = histogram.Encode(latency)
	r.Refused = map[string]uint64{}
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	for why, n := range s.refusals.byRefusal {
		r.Refused[string(why)] = n
	}
	return r
}

// unixNano is a time of the Server by the clock of the world; 0 stays 0.
func (s *Server) unixNano(ns int64) int64 {
	if ns == 0 {
		return 0
	}
	return s.began.UnixNano() + ns
}
