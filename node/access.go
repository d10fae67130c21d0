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

// access says who may call the node service. It counts the calls that were refused for who made them, and tells the log
// of them once in a while.
type access struct {
	fence *tagnet.Fence // says which control is obeyed, by the node service and by the host of the scheduler
	log   *slog.Logger

	notControl atomic.Uint64 // calls by a certificate that is not the control's
	fenced     atomic.Uint64 // calls by a control whose term is over
	logLimiter connlimit.LogLimiter
}

// admit lets in the control whose term it is, and nobody else. What it returns is closed when a control with a higher
// term is heard.
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

// admitAnyTerm lets the control in for what changes nothing.
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

// checkStart refuses to start for a view that this node is not configured for, or with a scheduler that has no place
// in it.
func (n *process) checkStart(req *nodev1.CommandRequest) error {
	s, _ := n.sessionAndRequest()
	if s == nil {
		return nil // the state machine says so
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
		if m.GetName() == name {
			return nil
		}
	}
	return status.Error(codes.FailedPrecondition,
		fmt.Sprintf("the scheduler is said to live on %s, which has no place in view %d", name, s.view.GetNumber()))
}

// addTerm adds the term that a node obeys, for its report.
func (a *access) addTerm(r *nodev1.Report) {
	term, since := a.fence.Term()
	if term.Number > 0 {
		r.Term, r.TermSinceUs = &nodev1.Term{Number: term.Number, Holder: term.Holder}, since.UnixMicro()
	}
}
