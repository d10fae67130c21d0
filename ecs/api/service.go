package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// service implements RunControl, behind the interceptors.
type service struct {
	ecsv1.UnimplementedRunControlServer

	// immutable
	backend    Backend
	records    Records
	journal    Journal
	now        func() time.Time
	onTransfer func() // called after the owner of the control has changed

	mu    sync.Mutex // guards what follows
	owner ownership
}

func (s *service) GetStatus(ctx context.Context, _ *ecsv1.GetStatusRequest) (*ecsv1.PartitionStatus, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	st := proto.CloneOf(s.backend.Status())
	st.Owner = s.currentOwner().message()
	st.You = &ecsv1.Owner{Name: caller.Name, Role: caller.Role}
	return st, nil
}

func (s *service) DescribeFSM(context.Context, *ecsv1.DescribeFSMRequest) (*ecsv1.FSM, error) {
	return s.backend.FSM(), nil
}

func (s *service) Plan(ctx context.Context, req *ecsv1.CommandRequest) (*ecsv1.PlanResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkRequest(s.backend.FSM(), req); err != nil {
		return nil, err
	}
	plan := proto.CloneOf(s.backend.Plan(ctx, req))
	// The plan includes the refusals of the API.
	if err := permit(caller, ecsv1.RunControl_Command_FullMethodName); err != nil {
		plan.Possible, plan.Refusals = false, append(plan.Refusals, err.Error())
	} else if err := s.currentOwner().checkOwner(caller); err != nil {
		plan.Possible, plan.Refusals = false, append(plan.Refusals, err.Error())
	}
	return plan, nil
}

func (s *service) Command(ctx context.Context, req *ecsv1.CommandRequest) (*ecsv1.CommandResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkRequest(s.backend.FSM(), req); err != nil {
		return nil, err
	}
	if err := s.currentOwner().checkOwner(caller); err != nil {
		return nil, err
	}
	resp, err := s.backend.Command(ctx, caller.Name, req)
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		s.addEvent("command", caller, ecsv1.Severity_SEVERITY_WARNING,
			fmt.Sprintf("%s of %s failed: %v", req.GetCommand(), caller.Name, err))
	}
	return resp, err
}

func (s *service) TakeControl(ctx context.Context, req *ecsv1.TakeControlRequest) (*ecsv1.Owner, error) {
	return s.transferControl(ctx, func(o ownership, c caller) (ownership,
		error) {
		return o.acquire(c, req.GetForce(), s.now())
	})
}

func (s *service) ReleaseControl(ctx context.Context, _ *ecsv1.ReleaseControlRequest) (*ecsv1.Owner, error) {
	return s.transferControl(ctx, ownership.release)
}

// transferControl applies a step of the ownership, and publishes it if the owner has changed.
func (s *service) transferControl(ctx context.Context, step func(ownership,
	caller) (ownership, error)) (*ecsv1.Owner, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	was := s.owner
	next, err := step(was, caller)
	if err == nil {
		s.owner = next
	}
	s.mu.Unlock()
	if err != nil || next == was {
		return next.message(), err
	}
	text := caller.Name + " has control"
	switch {
	case next.name == "":
		text = caller.Name + " gave control back"
	case was.name != "":
		text += ", taken from " + was.name
	}
	s.addEvent("control", caller, ecsv1.Severity_SEVERITY_INFO, text)
	s.onTransfer()
	return next.message(), nil
}

func (s *service) currentOwner() ownership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner
}

func (s *service) addEvent(kind string, c caller, severity ecsv1.Severity, text string) {
	s.journal.Add(&ecsv1.Event{
		At:        timestamppb.New(s.now()),
		Kind:      kind,
		Component: "partition",
		Text:      text,
		Severity:  severity,
		User:      c.Name,
		Run:       s.backend.Snapshot(0).GetRun(),
	})
}

func (s *service) GetSnapshot(_ context.Context, req *ecsv1.GetSnapshotRequest) (*ecsv1.Snapshot, error) {
	return s.backend.Snapshot(int(req.GetHistory())), nil
}

// Default lengths of lists, and the greatest.
const (
	defaultRunLimit   = 50
	defaultAuditLimit = 100
	maxListLimit      = 1000
)

// listLength is the length of a list by the request, or its default; the error is an *ArgumentError.
func listLength(requested uint32, otherwise int) (int, error) {
	switch {
	case requested == 0:
		return otherwise, nil
	case requested > maxListLimit:
		return 0, &ArgumentError{Name: "limit",
			Why: fmt.Sprintf("at most %d at a time: ask for those before the last one", maxListLimit)}
	}
	return int(requested), nil
}

func (s *service) ListRuns(_ context.Context, req *ecsv1.ListRunsRequest) (*ecsv1.ListRunsResponse, error) {
	limit, err := listLength(req.GetLimit(), defaultRunLimit)
	if err != nil {
		return nil, err
	}
	list, err := s.records.List(req.GetBefore(), limit)
	if err != nil {
		return nil, err
	}
	return &ecsv1.ListRunsResponse{Runs: list.Runs, More: list.HasOlder}, nil // the store logs damaged records
}

func (s *service) GetRun(_ context.Context, req *ecsv1.GetRunRequest) (*ecsv1.Run, error) {
	if req.GetNumber() == 0 {
		return s.records.Latest()
	}
	return s.records.Get(req.GetNumber())
}

func (s *service) CheckConfiguration(ctx context.Context,
	req *ecsv1.CheckConfigurationRequest) (*ecsv1.CheckConfigurationResponse, error) {
	if why := typeMismatch("yaml", req.GetConfiguration()); why != "" {
		return nil, &ArgumentError{Name: "configuration", Why: why}
	}
	for i, setting := range req.GetSettings() {
		if why := typeMismatch("settings", setting); why != "" {
			return nil, &ArgumentError{Name: fmt.Sprintf("settings.%d", i), Why: why}
		}
	}
	return s.backend.Check(ctx, req), nil
}

func (s *service) ListAudit(_ context.Context, req *ecsv1.ListAuditRequest) (*ecsv1.ListAuditResponse, error) {
	limit, err := listLength(req.GetLimit(), defaultAuditLimit)
	if err != nil {
		return nil, err
	}
	entries, err := s.records.ListAudit(limit)
	if err != nil {
		return nil, err
	}
	return &ecsv1.ListAuditResponse{Entries: entries}, nil
}

// ownership is which user has control. It is a value: each step returns the next one, or an error. In the zero
// ownership no user has control.
type ownership struct {
	name  string
	role  ecsv1.Role
	since time.Time
}

func (o ownership) message() *ecsv1.Owner {
	if o.name == "" {
		return &ecsv1.Owner{}
	}
	return &ecsv1.Owner{Name: o.name, Role: o.role, Since: timestamppb.New(o.since)}
}

// acquire gives control to the caller. If the caller has it already, nothing changes.
func (o ownership) acquire(c caller, force bool, now time.Time) (ownership, error) {
	if force && c.Role < ecsv1.Role_ROLE_ADMIN {
		return o, &roleError{Caller: c, Action: "take control by force", Needs: ecsv1.Role_ROLE_ADMIN}
	}
	switch {
	case o.name == c.Name:
		return o, nil
	case o.name != "" && !force:
		return o, &controlError{Owner: o.message()}
	}
	return ownership{name: c.Name, role: c.Role, since: now}, nil
}

// release gives control back. Only the user who has control may do so; if no user has it, nothing changes.
func (o ownership) release(c caller) (ownership, error) {
	if o.name != "" && o.name != c.Name {
		return o, &controlError{Owner: o.message()}
	}
	return ownership{}, nil
}

// checkOwner refuses a command of the caller if another user has control.
func (o ownership) checkOwner(c caller) error {
	if o.name != "" && o.name != c.Name {
		return &controlError{Owner: o.message()}
	}
	return nil
}
