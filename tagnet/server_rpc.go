package tagnet

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// serveRegisters tells all figures.
func (s *Server) serveRegisters(ctx context.Context, m *tagnetv1.RegistersRequest) (
	*tagnetv1.RegistersResponse, error,
) {
	if _, err := s.authorizer.authorizeReader(ctx, m.GetScope(), s.isMember); err != nil {
		return nil, err
	}
	if err := s.checkScope(m.GetScope(), true); err != nil {
		return nil, err
	}
	return s.Registers(), nil
}

// isMember tells whether a node has a unit in the view.
func (s *Server) isMember(name string) bool {
	_, ru := s.ruIndex[name]
	_, bu := s.buIndex[name]
	return ru || bu
}

// serveControl serves the operations of Server to remote callers.
func (s *Server) serveControl(ctx context.Context, m *tagnetv1.ControlRequest) (*tagnetv1.ControlResponse, error) {
	if _, err := s.authorizer.authorizeControl(ctx, m.GetScope()); err != nil {
		return nil, err
	}
	if !s.enterHandler() {
		return nil, errClosing
	}
	defer s.wg.Done()
	if err := s.checkScope(m.GetScope(), false); err != nil {
		return nil, err
	}
	reissued, err := s.operate(m)
	switch {
	case errors.Is(err, errUnknownUnit):
		return nil, s.refuse(codes.InvalidArgument, RefusedName, m.GetTarget(), "", "view %d has no unit %q for %s",
			s.cfg.View, m.GetTarget(), m.GetOperation())
	case errors.Is(err, errUnknownOperation):
		return nil, s.refuse(codes.InvalidArgument, RefusedOperation, m.GetOperation(), "", "no operation %s",
			m.GetOperation())
	case err != nil:
		return nil, s.refuse(codes.FailedPrecondition, RefusedNotNow, m.GetOperation(), "", "%v", err)
	}
	r := &tagnetv1.ControlResponse{Reissued: uint64(reissued)}
	s.runAsOwner(func() { r.State = tagnetv1.State(s.core.State()) })
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
	case tagnetv1.ControlRequest_OPERATION_LOSE_BU:
		return s.LoseBU(m.GetTarget())
	case tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU:
		return 0, s.ExcludeRU(m.GetTarget())
	case tagnetv1.ControlRequest_OPERATION_INCLUDE_RU:
		return 0, s.IncludeRU(m.GetTarget())
	}
	return 0, errUnknownOperation
}
