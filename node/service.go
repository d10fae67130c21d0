package node

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// ProtocolVersion is the version of the node service; the control and the nodes must have the same.
const ProtocolVersion = 2

// commandOf is the state machine's command for a command of the node service.
func commandOf(c nodev1.Command) (fsm.Command, error) {
	return fsm.ParseCommand(strings.ToLower(strings.TrimPrefix(c.String(), "COMMAND_")))
}

// service implements the node service over gRPC.
type service struct {
	nodev1.UnimplementedNodeServer
	node *process
}

// Command takes the node through one transition.
func (s *service) Command(ctx context.Context, req *nodev1.CommandRequest) (*nodev1.CommandResponse, error) {
	if req.GetProtocol() != ProtocolVersion {
		return nil, status.Errorf(codes.FailedPrecondition,
			"the control speaks version %d of the node service, this node speaks %d: run the same release everywhere",
			req.GetProtocol(), ProtocolVersion)
	}
	if _, err := s.node.access.admit(ctx, "Command", req.GetTerm()); err != nil {
		return nil, err
	}
	defer s.node.controlCalls.beginCall()()
	if err := s.node.commands.accept(req); err != nil {
		s.node.log.Warn("refused a command that came too late", "command", req.GetCommand(), "why", err)
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	c, err := commandOf(req.GetCommand())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%v is no command of a node", req.GetCommand())
	}
	if c == fsm.Start {
		if err := s.node.checkStart(req); err != nil {
			return nil, err
		}
	}
	s.node.mu.Lock()
	if run := s.node.currentRequest.GetRun(); c == fsm.Stop && req.GetRun() != 0 && req.GetRun() != run {
		s.node.mu.Unlock()
		return nil, status.Errorf(codes.FailedPrecondition, "this node is in run %d, not in run %d", run, req.GetRun())
	}
	if c == fsm.Configure || c == fsm.Start {
		s.node.currentRequest = req
	}
	if c == fsm.Configure || c == fsm.Reset || c == fsm.Recover {
		s.node.parkedCause = fsm.Cause{}
	}
	if c == fsm.Stop || c == fsm.Start {
		s.node.discardRun = c == fsm.Stop && req.GetAbandon()
	}
	s.node.mu.Unlock()
	if c == fsm.Stop && req.GetAbandon() && s.node.runner.Status().State == fsm.Configuring {
		s.node.reportFault("configuration", errRunAbandoned) // it may wait for links to a node that will never be ready
	}
	err = s.node.runner.Command(ctx, c)
	return &nodev1.CommandResponse{Status: s.node.status()}, toStatus(err)
}

var errRunAbandoned = errors.New("the control gave the run up before this node was ready")

// toStatus turns a failed command into a gRPC status.
func toStatus(err error) error {
	var forbidden *fsm.PreconditionError
	var cause fsm.Cause
	switch {
	case err == nil:
		return nil
	case errors.As(err, &forbidden):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, &cause):
		st := status.New(codes.Aborted, err.Error())
		if with, err := st.WithDetails(causeMessage(cause)); err == nil {
			st = with
		}
		return st.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// Report returns one report.
func (s *service) Report(ctx context.Context, req *nodev1.ReportRequest) (*nodev1.Report, error) {
	if _, err := s.node.access.admit(ctx, "Report", req.GetTerm()); err != nil {
		return nil, err
	}
	defer s.node.controlCalls.beginCall()()
	if req.GetLetGo() {
		s.node.leaving.promised.Store(true)
	}
	if to := req.GetSuccessor(); to != nil {
		if err := s.node.followSuccessor(to); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	if c := req.GetSources(); c != nil {
		s.node.wantSources(c)
	}
	r := s.node.report(0)
	if r.GetFinal() && req.GetDone() {
		s.node.reportCollected.Store(true)
	}
	return r, nil
}

// Substitute has the links accept another node in the place of a member that is lost.
func (s *service) Substitute(ctx context.Context, req *nodev1.SubstituteRequest) (*nodev1.SubstituteResponse, error) {
	if _, err := s.node.access.admit(ctx, "Substitute", req.GetTerm()); err != nil {
		return nil, err
	}
	defer s.node.controlCalls.beginCall()()
	now, _ := s.node.sessionAndRequest()
	rank := int(req.GetRank())
	if now == nil || now.view.GetNumber() != req.GetView() || rank >= len(now.view.GetMembers()) ||
		rank == int(now.self.GetRank()) {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is not configured for view %d with another node of rank %d",
			s.node.cfg.Name, req.GetView(), rank)
	}
	now.endpoint.SetSubstitute(rank, req.GetSubstitute())
	return &nodev1.SubstituteResponse{}, nil
}

// followSuccessor has the units of a run go on with the successor of their scheduler. A second call with the same
// successor does nothing.
func (n *process) followSuccessor(to *nodev1.Successor) error {
	n.mu.Lock()
	s, req := n.session, n.currentRequest
	if s == nil || req.GetRun() != to.GetRun() || req.GetTagnetAddress() == to.GetAddress() {
		n.mu.Unlock()
		return nil
	}
	req = proto.CloneOf(req)
	req.TagnetName, req.TagnetAddress = to.GetName(), to.GetAddress()
	n.currentRequest = req
	n.mu.Unlock()
	n.log.Warn("the scheduler is lost: going on with its successor", "successor", to.GetName())
	return s.followSuccessor()
}

// Watch streams reports, at an interval and at every change of state.
func (s *service) Watch(req *nodev1.WatchRequest, out nodev1.Node_WatchServer) error {
	risen, err := s.node.access.admit(out.Context(), "Watch", req.GetTerm())
	if err != nil {
		return err
	}
	defer s.node.controlCalls.beginCall()()
	every := time.Duration(req.GetIntervalMs()) * time.Millisecond
	if every <= 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	changes := s.node.runner.Watch(out.Context())
	for {
		if err := out.Send(s.node.report(int(req.GetTimeline()))); err != nil {
			return err
		}
		select {
		case <-out.Context().Done():
			return nil
		case <-tick.C:
		case <-risen:
			if risen, err = s.node.access.admit(out.Context(), "Watch", req.GetTerm()); err != nil {
				return err
			}
		case _, ok := <-changes:
			if !ok {
				return status.Error(codes.Unavailable, "the node is going away")
			}
		}
	}
}

func (n *process) status() *nodev1.Status {
	st := n.runner.Status()
	out := &nodev1.Status{State: st.State.String(), Degraded: !st.Degraded.IsZero()}
	if st.State.IsTransitional() {
		out.InBetween = st.State.String()
	}
	n.mu.Lock()
	parked := n.parkedCause
	n.mu.Unlock()
	out.Parked = !parked.IsZero()
	for _, c := range []fsm.Cause{st.Cause, parked, st.Degraded, st.Forced} {
		if !c.IsZero() {
			out.Cause = causeMessage(c)
			break
		}
	}
	return out
}

func causeMessage(c fsm.Cause) *nodev1.Cause {
	return &nodev1.Cause{
		Component: c.Component,
		What:      c.What,
		Evidence:  c.Evidence,
		Code:      c.Kind.String(),
		Part:      c.Subsystem,
		Trouble:   c.Trouble,
	}
}
