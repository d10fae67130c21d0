package tagnet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// A Host holds a scheduler, on a node or in the process of a control. It has at most one Server at a time: the control
// creates the Server by Begin and closes it by End, and may die in between. Register the Host, serve, and Close it
// before the gRPC server is stopped.
type Host struct {
	// immutable
	access     Access // for the host, and for its scheduler
	authorizer *authorizer

	mu            sync.Mutex // guards the rest
	server        *Server    // nil: no scheduler
	refusalCounts map[core.Refusal]uint64
}

// NewHost makes a Host without a scheduler.
func NewHost(access Access) *Host {
	if access.Fence == nil {
		access.Fence = NewFence()
	}
	h := &Host{access: access, refusalCounts: map[core.Refusal]uint64{}}
	h.authorizer = newAuthorizer(access, func(why core.Refusal) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.refusalCounts[why]++
	})
	return h
}

// RefusalCounts counts the calls that the host has refused, by reason: a wrong name, role or term. Calls that a
// scheduler refused are in its registers.
func (h *Host) RefusalCounts() map[core.Refusal]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.refusalCounts)
}

// Register adds the service to a gRPC server, before the server serves.
func (h *Host) Register(r grpc.ServiceRegistrar) { tagnetv1.RegisterTagNetServer(r, hostService{h: h}) }

// Server is the host's scheduler, nil if there is none. The host closes it.
func (h *Host) Server() *Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server
}

// Close closes the scheduler, if there is one.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		h.closeServer()
	}
}

// CloseOthers closes the scheduler unless it is that of a view. A node that is configured may have one whose run is
// over for it: the node stood still or was cut off, and another has taken the scheduler over.
func (h *Host) CloseOthers(view uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil && h.server.cfg.View != view {
		h.closeServer()
	}
}

// begin makes the scheduler. It closes a former scheduler whose view is drained.
func (h *Host) begin(m *tagnetv1.BeginRequest) (*tagnetv1.BeginResponse, error) {
	cfg, err := serverConfigOf(m)
	if err != nil {
		return nil, refusalStatus(codes.InvalidArgument, core.RefusedMessage, nil, "%v", err)
	}
	cfg.Access = h.access
	if trigger, err := ParseTrigger(cfg.Core.Trigger); err == nil && h.access.AllowTrigger != nil {
		if err := h.access.AllowTrigger(trigger); err != nil {
			return nil, refusalStatus(codes.InvalidArgument, core.RefusedMessage, nil, "%v", err)
		}
	}
	m = withoutTerm(m) // the same request by another control is equal
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		current, requested := &h.server.cfg, m.GetScope()
		switch {
		case proto.Equal(h.server.beginRequest, m):
			return &tagnetv1.BeginResponse{State: tagnetv1.State(h.server.log.last().State), Already: true}, nil
		case current.Run == requested.GetRun() && current.View == requested.GetView():
			return nil, refusalStatus(codes.FailedPrecondition, core.RefusedBusy, nil,
				"the scheduler of run %d, view %d was begun with another configuration", current.Run, current.View)
		case !isClosed(h.server.drained):
			return nil, refusalStatus(codes.FailedPrecondition, core.RefusedBusy, nil,
				"the scheduler of run %d, view %d is at work here: end it before run %d, view %d begins",
				current.Run, current.View, requested.GetRun(), requested.GetView())
		}
		h.closeServer()
	}
	s, err := newServer(cfg)
	if err != nil {
		return nil, refusalStatus(codes.InvalidArgument, core.RefusedMessage, nil, "%v", err)
	}
	s.beginRequest, h.server = m, s
	return &tagnetv1.BeginResponse{State: tagnetv1.State_STATE_IDLE}, nil
}

// awaitRebuilt waits until the successor of a lost scheduler has its state.
func (h *Host) awaitRebuilt(ctx context.Context) error {
	s := h.Server()
	if s == nil || s.cfg.Living == nil {
		return nil
	}
	select {
	case <-s.rebuilt:
		return nil
	case <-s.quit:
		return errClosing
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// withoutTerm is a request without the term of its control.
func withoutTerm(m *tagnetv1.BeginRequest) *tagnetv1.BeginRequest {
	m = proto.CloneOf(m)
	m.Scope.Term, m.Scope.Holder = 0, ""
	return m
}

// closeServer closes the scheduler. mu is held.
func (h *Host) closeServer() {
	h.server.Close()
	h.server = nil
}

// end closes the scheduler of a scope. It tells whether there was one.
func (h *Host) end(scope *tagnetv1.Scope) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		return false, nil
	}
	if err := h.server.checkScope(scope, true); err != nil {
		return false, err
	}
	h.closeServer()
	return true, nil
}

func errNoScheduler() error {
	return refusalStatus(codes.Unavailable, core.RefusedNoView, nil,
		"this node has no scheduler now: the control has not begun one, or has ended it")
}

// hostService serves the Host by gRPC.
type hostService struct {
	tagnetv1.UnimplementedTagNetServer

	h *Host
}

func (v hostService) Tokens(srv tagnetv1.TagNet_TokensServer) error {
	s := v.h.Server()
	if s == nil {
		return errNoScheduler()
	}
	return s.serveTokens(srv)
}

func (v hostService) Feedback(srv tagnetv1.TagNet_FeedbackServer) error {
	s := v.h.Server()
	if s == nil {
		return errNoScheduler()
	}
	return s.serveFeedback(srv)
}

func (v hostService) Registers(ctx context.Context, m *tagnetv1.RegistersRequest) (*tagnetv1.RegistersResponse, error) {
	s := v.h.Server()
	if s == nil {
		return nil, errNoScheduler()
	}
	return s.serveRegisters(ctx, m)
}

func (v hostService) Control(ctx context.Context, m *tagnetv1.ControlRequest) (*tagnetv1.ControlResponse, error) {
	if s := v.h.Server(); s != nil {
		return s.serveControl(ctx, m)
	}
	if _, err := v.h.authorizer.authorizeControl(ctx, m.GetScope()); err != nil {
		return nil, err
	}
	return nil, errNoScheduler()
}

func (v hostService) Begin(ctx context.Context, m *tagnetv1.BeginRequest) (*tagnetv1.BeginResponse, error) {
	if _, err := v.h.authorizer.authorizeControl(ctx, m.GetScope()); err != nil {
		return nil, err
	}
	if got := m.GetScope().GetProtocol(); got != protocolVersion {
		return nil, refusalStatus(codes.FailedPrecondition, core.RefusedProtocol, nil,
			"%q speaks protocol %d, this host speaks %d", m.GetScope().GetName(), got, protocolVersion)
	}
	answer, err := v.h.begin(m)
	if err == nil {
		err = v.h.awaitRebuilt(ctx)
	}
	return answer, err
}

func (v hostService) End(ctx context.Context, m *tagnetv1.EndRequest) (*tagnetv1.EndResponse, error) {
	if _, err := v.h.authorizer.authorizeControl(ctx, m.GetScope()); err != nil {
		return nil, err
	}
	ended, err := v.h.end(m.GetScope())
	return &tagnetv1.EndResponse{Ended: ended}, err
}

// Follow sends the notices for controls, from the one after m.After on, until the scheduler is closed.
func (v hostService) Follow(m *tagnetv1.FollowRequest, out tagnetv1.TagNet_FollowServer) error {
	s := v.h.Server()
	if s == nil {
		return errNoScheduler()
	}
	superseded, err := s.authorizer.authorizeReader(out.Context(), m.GetScope(), s.isMember)
	if err != nil {
		return err
	}
	if err := s.checkScope(m.GetScope(), true); err != nil {
		return err
	}
	next := m.GetAfter() + 1
	for {
		some, changed, over := s.log.follow(next)
		for i := range some {
			if err := out.Send(noticeMessage(&some[i])); err != nil {
				return err
			}
			next = some[i].Sequence + 1
		}
		switch {
		case len(some) > 0:
			continue
		case over:
			return nil
		}
		select {
		case <-changed:
		case <-superseded:
			if superseded, err = s.authorizer.authorizeReader(out.Context(), m.GetScope(), s.isMember); err != nil {
				return err
			}
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

// noticeMessage is the message of a notice for a control.
func noticeMessage(n *core.Notice) *tagnetv1.Notice {
	m := &tagnetv1.Notice{Number: n.Sequence, AtNs: n.AtNs}
	e := n.Incident
	if e == nil {
		m.State = tagnetv1.State(n.State)
		return m
	}
	m.Incident = &tagnetv1.Incident{
		Role: tagnetv1.Incident_Role(e.Role + 1), Unit: e.Unit, Kind: tagnetv1.Incident_Kind(e.Incident + 1),
	}
	if e.Err != nil {
		m.Incident.SeenBy = e.Err.Error()
	}
	return m
}

// incidentOf decodes an incident; false if this version does not know its role or kind.
func incidentOf(m *tagnetv1.Incident) (*core.UnitError, bool) {
	role, kind := m.GetRole()-1, m.GetKind()-1
	if role < 0 || int(role) > int(core.Builder) || kind < 0 || int(kind) > int(core.UnitMisbehaved) {
		return nil, false
	}
	e := &core.UnitError{Role: core.Role(role), Unit: m.GetUnit(), Incident: core.Incident(kind)}
	if e.Incident != core.UnitMissing {
		e.Err = errors.New(m.GetSeenBy())
	}
	return e, true
}

// newBeginRequest is the request for the scheduler of a view.
func newBeginRequest(scope Scope, c *core.Config, wait UnitTimeouts) *tagnetv1.BeginRequest {
	ms := func(d time.Duration) uint32 { return uint32(min(max(0, d.Milliseconds()), math.MaxUint32)) }
	m := c.Request()
	m.Scope, m.AttachTimeoutMs, m.ResumeTimeoutMs = scope.message(), ms(wait.Attach), ms(wait.Resume)
	return m
}

// maxResumeTimeout bounds what a request may ask for: the setting silence allows a fifth of it.
const maxResumeTimeout = time.Minute

// errBegin says that a host cannot make the requested scheduler.
var errBegin = errors.New("tagnet: no scheduler")

// serverConfigOf is the configuration of a message that newBeginRequest made.
func serverConfigOf(m *tagnetv1.BeginRequest) (serverConfig, error) {
	view, err := core.ConfigOf(m)
	scope := m.GetScope()
	var living []core.Unit
	if err == nil {
		living, err = livingUnits(m.GetSuccession(), &view)
	}
	resume := time.Duration(m.GetResumeTimeoutMs()) * time.Millisecond
	if err == nil && resume > maxResumeTimeout {
		err = fmt.Errorf("the stream of a unit may be broken for %v, and %v are the most", resume, maxResumeTimeout)
	}
	if err != nil {
		return serverConfig{}, fmt.Errorf("%w for run %d, view %d: %w", errBegin, scope.GetRun(), scope.GetView(), err)
	}
	return serverConfig{
		Core:          view,
		Run:           scope.GetRun(),
		View:          scope.GetView(),
		AttachTimeout: time.Duration(m.GetAttachTimeoutMs()) * time.Millisecond,
		ResumeTimeout: resume,
		Living:        living,
		RecallTimeout: time.Duration(m.GetSuccession().GetWaitMs()) * time.Millisecond,
		FirstTokenNs:  m.GetSuccession().GetFirstTokenNs(),
		Substitutes:   m.GetSuccession().GetSubstitutes(),
	}, nil
}

// livingUnits are the units that a successor waits for; nil if m asks for a first scheduler.
func livingUnits(m *tagnetv1.Succession, view *core.Config) (living []core.Unit, err error) {
	if m == nil {
		return nil, nil
	}
	for role, names := range [2][]string{m.GetRus(), m.GetBus()} {
		index := indexOf([2][]string{view.RUs, view.BUs}[role])
		for _, name := range names {
			i, ok := index[name]
			if !ok {
				return nil, fmt.Errorf("%w: %q is said to live, and the view has no such unit", errUnknownUnit, name)
			}
			living = append(living, core.Unit{Role: core.Role(role), Index: i})
		}
	}
	for name := range m.GetSubstitutes() {
		if !slices.Contains(view.RUs, name) && !slices.Contains(view.BUs, name) {
			return nil, fmt.Errorf("%w: %q is said to have a substitute, and the view has no such unit", errUnknownUnit, name)
		}
	}
	if len(m.GetRus()) == 0 || len(m.GetBus()) == 0 {
		return nil, errors.New("nobody lives who knows what the lost scheduler has done")
	}
	return living, nil
}
