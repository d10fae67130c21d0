package tagnet

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// service is the Server as gRPC sees it; the Server's own methods have the same names with other meanings.
type service struct {
	tagnetv1.UnimplementedTagNetServer

	s *Server
}

func (v service) Tokens(srv tagnetv1.TagNet_TokensServer) error { return v.s.serveTokens(srv) }

func (v service) Feedback(srv tagnetv1.TagNet_FeedbackServer) error { return v.s.serveFeedback(srv) }

func (v service) Control(_ context.Context, m *tagnetv1.ControlRequest) (*tagnetv1.ControlResponse, error) {
	return v.s.control(m)
}

func (v service) Registers(_ context.Context, m *tagnetv1.RegistersRequest) (*tagnetv1.RegistersResponse, error) {
	if err := v.s.checkScope(m.GetScope(), true); err != nil {
		return nil, err
	}
	stats := v.s.Stats()
	return v.s.registersMessage(&stats), nil
}

func (s *Server) registersMessage(stats *Stats) *tagnetv1.RegistersResponse {
	r := &stats.Registers
	m := &tagnetv1.RegistersResponse{
		Run: s.cfg.Run, View: s.cfg.View, State: tagnetv1.State(r.State), Policy: tagnetv1.Policy(r.Policy + 1),
		WaitingFor: r.Waiting.String(), NextMep: r.NextMEP, NextCycle: r.NextCycle, Read: r.Read, Released: r.Released,
		Counters: r.Named(), Next: r.Rules.Next.String(), Loose: r.Loose,
		Depths: []*tagnetv1.Depth{
			depthMessage("ready", &r.Ready), depthMessage("cycles", &r.Cycles),
			depthMessage("window", &r.Window), depthMessage("again", &r.Again),
		},
	}
	m.Counters["in_flight"], m.Counters["held_up"] = r.InFlight, r.HeldUp
	m.Counters["latency_clipped"] = stats.LatencyClipped
	for why, n := range stats.Refused {
		m.Counters["conversation_refused_"+string(why)] = n
	}
	if r.Ring != nil {
		m.Depths = append(m.Depths, depthMessage("tags", &r.Ring.Under))
	}
	for i := range r.RUs {
		u := &r.RUs[i]
		m.Rus = append(m.Rus, &tagnetv1.RURegister{
			Name: u.Name, Attached: u.Attached, Excluded: u.Excluded, Read: u.Update.Read, Ended: u.Update.End,
		})
	}
	for i, g := range r.Groups {
		u := &tagnetv1.GroupRegister{Running: g.Running, Most: g.Most, Tokens: g.Tokens, Skips: g.Skips}
		for _, bu := range r.Rules.Groups[i] {
			u.Members = append(u.Members, r.BUs[bu].Name)
		}
		m.Groups, m.BusyGroup = append(m.Groups, u), tagnetv1.Policy(r.Rules.BusyGroup+1)
	}
	for j := range r.BUs {
		u := &r.BUs[j]
		m.Bus = append(m.Bus, &tagnetv1.BURegister{
			Name: u.Name, Attached: u.Attached, Excluded: u.Excluded, Free: uint64(u.Free), Used: depthMessage("used", &u.Used),
			Counters: map[string]uint64{
				"tokens": u.Counters.Tokens, "built": u.Counters.Built, "incomplete": u.Counters.Incomplete,
				"discarded": u.Counters.Discarded, "rejected": u.Counters.Rejected, "skips": u.Counters.Skips,
				"left_behind": u.Counters.LeftBehind, "refused": u.Counters.Refused,
			},
		})
	}
	return m
}

// Named gives every counter the name it has in the registers of the protocol.
func (r *Registers) Named() map[string]uint64 {
	c := &r.Counters
	m := map[string]uint64{
		"cycles": c.Cycles, "partial_cycles": c.PartialCycles, "issued": c.Issued, "reissued": c.Reissued,
		"built": c.Built, "incomplete": c.Incomplete, "discarded": c.Discarded, "rejected": c.Rejected, "abandoned": c.Abandoned,
		"events_issued": c.EventsIssued, "events_built": c.EventsBuilt, "events_incomplete": c.EventsIncomplete,
		"events_discarded": c.EventsDiscarded, "events_rejected": c.EventsRejected, "events_abandoned": c.EventsAbandoned,
		"skips": c.Skips, "group_skips": c.GroupSkips,
	}
	for w := ForStart; w < numberOfWaiting; w++ {
		m["waits_for_"+w.String()] = c.Waits[w]
	}
	for why := UnknownUnit; why < numberOfReasons; why++ {
		m["refused_"+why.String()] = c.Refused[why]
	}
	if r.Ring != nil {
		r.Ring.name(m)
	}
	return m
}

func depthMessage(name string, d *Depth) *tagnetv1.Depth {
	return &tagnetv1.Depth{
		Name: name, Now: d.Now, Max: d.Max, Capacity: d.Capacity, Crossed: d.Crossed[:], Full: d.Full, Usage: uint32(d.Usage()),
	}
}

// control serves the operations of Server to remote callers.
func (s *Server) control(m *tagnetv1.ControlRequest) (*tagnetv1.ControlResponse, error) {
	if !s.enter() {
		return nil, errClosing
	}
	defer s.wg.Done()
	if err := s.checkScope(m.GetScope(), false); err != nil {
		return nil, err
	}
	reissued, err := s.operate(m)
	switch {
	case errors.Is(err, ErrUnknownUnit):
		return nil, s.refuse(codes.InvalidArgument, RefusedName, m.GetTarget(), "", "view %d has no unit %q for %s",
			s.cfg.View, m.GetTarget(), m.GetOperation())
	case errors.Is(err, errUnknownOperation):
		return nil, s.refuse(codes.InvalidArgument, RefusedOperation, m.GetOperation(), "", "no operation %s", m.GetOperation())
	case err != nil:
		return nil, s.refuse(codes.FailedPrecondition, RefusedNow, m.GetOperation(), "", "%v", err)
	}
	r := &tagnetv1.ControlResponse{Reissued: uint64(reissued)}
	s.do(func() { r.State = tagnetv1.State(s.core.State()) })
	return r, nil
}

var errUnknownOperation = errors.New("tagnet: unknown operation")

func (s *Server) operate(m *tagnetv1.ControlRequest) (reissued int, err error) {
	switch m.GetOperation() {
	case tagnetv1.ControlRequest_OPERATION_PAUSE:
		return 0, s.Pause()
	case tagnetv1.ControlRequest_OPERATION_RESUME:
		return 0, s.Resume()
	case tagnetv1.ControlRequest_OPERATION_DRAIN:
		s.Drain(m.GetEnd())
		return 0, nil
	case tagnetv1.ControlRequest_OPERATION_ABANDON:
		s.Abandon()
		return 0, nil
	case tagnetv1.ControlRequest_OPERATION_EXCLUDE_BU:
		return s.ExcludeBU(m.GetTarget())
	case tagnetv1.ControlRequest_OPERATION_INCLUDE_BU:
		return 0, s.IncludeBU(m.GetTarget())
	case tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU:
		return 0, s.ExcludeRU(m.GetTarget())
	}
	return 0, errUnknownOperation
}
