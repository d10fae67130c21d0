package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/internal/connlimit"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// access says which callers the node service serves. It counts the calls that it refuses because of the caller, and
// logs them once in a while.
type access struct {
	fence *tagnet.Fence // says which control is obeyed, by the node service and by the scheduler's host
	log   *slog.Logger

	notControl atomic.Uint64 // calls with a certificate other than the control's
	fenced     atomic.Uint64 // calls of a control that another one has replaced
	logLimiter connlimit.LogLimiter
}

// admit admits only the control with the highest term. risen is closed when a control with a higher term calls.
func (a *access) admit(ctx context.Context, method string, term *nodev1.Term) (risen <-chan struct{}, err error) {
	if err := a.admitAnyTerm(ctx, method); err != nil {
		return nil, err
	}
	risen, err = a.fence.Admit(tagnet.Term{Number: term.GetNumber(), Holder: term.GetHolder()})
	if fenced := tagnet.AsFencedError(err); fenced != nil {
		a.fenced.Add(1)
		a.logRefused(method, err)
		return nil, fenced.Status()
	}
	return risen, err
}

// admitAnyTerm admits any control, for a call that changes nothing.
func (a *access) admitAnyTerm(ctx context.Context, method string) error {
	err := requireControl(ctx)
	if err == nil {
		return nil
	}
	a.notControl.Add(1)
	a.logRefused(method, err)
	return status.Error(codes.PermissionDenied, err.Error())
}

func (a *access) logRefused(method string, why error) {
	if unreported, yes := a.logLimiter.Allow(method, time.Now()); yes {
		a.log.Warn("the node refused a call", "method", method, "why", why, "unreported", unreported)
	}
}

// checkStart refuses to start in a view that this node is not configured for, or with a scheduler on a node that is not
// in the view.
func (n *process) checkStart(req *nodev1.CommandRequest) error {
	s, _ := n.sessionAndRequest()
	if s == nil {
		return nil // the state machine refuses the start
	}
	if configured, requested := s.view.GetNumber(), req.GetView().GetNumber(); configured != requested {
		return status.Errorf(codes.FailedPrecondition,
			"%s is configured for view %d and cannot start in view %d: configure it for that", n.cfg.Name, configured, requested)
	}
	name := req.GetTagnetName()
	if name == "" {
		return nil
	}
	for _, m := range s.view.GetMembers() {
		if ProcessName(m) == name {
			return nil
		}
	}
	return status.Error(codes.FailedPrecondition,
		fmt.Sprintf("the scheduler is to be on %s, which is not in view %d", name, s.view.GetNumber()))
}

// addTerm adds the term that the node obeys to its report.
func (a *access) addTerm(r *nodev1.Report) {
	term, since := a.fence.Term()
	if term.Number > 0 {
		r.Term, r.TermSinceUs = &nodev1.Term{Number: term.Number, Holder: term.Holder}, since.UnixMicro()
	}
}
