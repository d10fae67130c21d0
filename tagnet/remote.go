package tagnet

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// errEnded is passed to RemoteConfig.OnGone when a control has ended the scheduler.
var errEnded = errors.New("tagnet: the scheduler has been ended")

// RemoteConfig describes a scheduler on a host.
type RemoteConfig struct {
	Scope Scope // run, view, and the name of the caller

	// One goroutine calls OnIncident and OnState, in order, with everything since the scheduler began, also what happened
	// before NewRemote or while the host could not be reached. They may call any method of the Remote but Close. Nil:
	// ignored.
	OnIncident func(*core.UnitError)
	OnState    func(core.State)
	// OnGone is called once, on the same goroutine, when the host no longer has this scheduler: with errEnded, or with the
	// *RemoteError of the host. While the host cannot be reached it is not called. Nil: ignored.
	OnGone func(error)
	// MinCallTimeout is the shortest time-out of a call. Zero: 5 s.
	MinCallTimeout time.Duration
}

// Remote is a Scheduler on a host. It survives broken connections, and another process may make a Remote of the same
// scheduler.
type Remote struct {
	// Immutable after NewRemote.

	commands

	cfg     RemoteConfig
	client  tagnetv1.TagNetClient
	ctx     context.Context
	cancel  context.CancelFunc
	drained chan struct{} // closed by the follower

	wg sync.WaitGroup // the follower
}

// callTimeout bounds each call, unless RemoteConfig.MinCallTimeout is longer.
const callTimeout = 5 * time.Second

func (r *Remote) callContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.ctx, max(callTimeout, r.cfg.MinCallTimeout))
}

// UnitTimeouts are how long a scheduler waits for units: Attach for their first streams, 0 for ever; Resume for one
// whose stream broke, 0 for DefaultResumeTimeout.
type UnitTimeouts struct{ Attach, Resume time.Duration }

// BeginScheduler has a host make the scheduler of a view. If the host has that scheduler already, nothing changes. The
// connection needs the credentials of the control. The error is a *RemoteError if the host refuses, a *GoneError if it
// cannot be reached.
func BeginScheduler(ctx context.Context, conn grpc.ClientConnInterface, scope Scope, c core.Config,
	wait UnitTimeouts) error {
	_, err := tagnetv1.NewTagNetClient(conn).Begin(ctx, newBeginRequest(scope, &c, wait))
	return clientError(scope.Name, err)
}

// A Succession is who lives of a view whose scheduler is lost.
type Succession struct {
	RUs, BUs     []string      // nodes whose units live and take part
	Wait         time.Duration // for them; those that have not attached by then count as lost
	Resume       time.Duration // as in UnitTimeouts
	FirstTokenNs int64         // when the lost scheduler issued the first token, in ns since the Unix epoch; 0: not known

	Substitutes map[string]string // the substitute of a member
}

// BeginSuccessor is BeginScheduler for the successor of a lost scheduler. It returns when the successor has rebuilt the
// state; meanwhile the units must be told to attach to it.
func BeginSuccessor(ctx context.Context, conn grpc.ClientConnInterface, scope Scope, c core.Config,
	of Succession) error {
	m := newBeginRequest(scope, &c, UnitTimeouts{Resume: of.Resume})
	m.Succession = &tagnetv1.Succession{Rus: of.RUs, Bus: of.BUs, WaitMs: uint32(of.Wait.Milliseconds()),
		FirstTokenNs: of.FirstTokenNs, Substitutes: of.Substitutes}
	_, err := tagnetv1.NewTagNetClient(conn).Begin(ctx, m)
	return clientError(scope.Name, err)
}

// EndScheduler has a host close the scheduler of a view. It is no error if the host has none. A scope of run and view 0
// means whichever scheduler the host has.
func EndScheduler(ctx context.Context, conn grpc.ClientConnInterface, scope Scope) error {
	_, err := tagnetv1.NewTagNetClient(conn).End(ctx, &tagnetv1.EndRequest{Scope: scope.message()})
	return clientError(scope.Name, err)
}

// NewRemote connects to a scheduler that has begun on the host at conn, which the caller keeps. Close ends it.
func NewRemote(conn grpc.ClientConnInterface, cfg RemoteConfig) *Remote {
	r := &Remote{cfg: cfg, client: tagnetv1.NewTagNetClient(conn), drained: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.commands = r.callControl
	r.wg.Go(r.followNotices)
	return r
}

// Close ends the session. The scheduler goes on: EndScheduler ends it.
func (r *Remote) Close() {
	r.cancel()
	r.wg.Wait()
}

// Drained is closed when the host has reported that the view is drained.
func (r *Remote) Drained() <-chan struct{} { return r.drained }

// Waits before the Remote requests a broken stream of notices again, from a host that answers and refuses: gRPC itself
// waits between attempts to connect.
const (
	minFollowDelay = 50 * time.Millisecond
	maxFollowDelay = time.Second
)

// followNotices handles notices until the Remote is closed or the scheduler is gone.
func (r *Remote) followNotices() {
	var after uint64
	wait := minFollowDelay
	for {
		before := after
		err := r.receiveNotices(&after)
		if r.ctx.Err() != nil {
			return
		}
		if gone := goneCause(err); gone != nil {
			if r.cfg.OnGone != nil {
				r.cfg.OnGone(gone)
			}
			return
		}
		if after != before {
			wait = minFollowDelay
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxFollowDelay)
	}
}

// goneCause says why the scheduler is gone; nil if only the stream has broken.
func goneCause(err error) error {
	var refused *RemoteError
	switch {
	case errors.Is(err, io.EOF):
		return errEnded
	case errors.As(err, &refused):
		return refused
	}
	return nil
}

// receiveNotices handles notices until the stream ends.
func (r *Remote) receiveNotices(after *uint64) error {
	stream, err := r.client.Follow(r.ctx, &tagnetv1.FollowRequest{Scope: r.cfg.Scope.message(), After: *after},
		grpc.WaitForReady(true))
	for err == nil {
		var m *tagnetv1.Notice
		if m, err = stream.Recv(); err == nil {
			*after = m.GetNumber()
			r.handleNotice(m)
		}
	}
	return clientError(r.cfg.Scope.Name, err)
}

func (r *Remote) handleNotice(m *tagnetv1.Notice) {
	if m.GetIncident() != nil {
		if e, ok := incidentOf(m.GetIncident()); ok && r.cfg.OnIncident != nil {
			r.cfg.OnIncident(e)
		}
		return
	}
	state := core.State(m.GetState())
	if r.cfg.OnState != nil {
		r.cfg.OnState(state)
	}
	if state == core.Drained && !isClosed(r.drained) {
		close(r.drained)
	}
}

// Abandon ends the view at once.
func (r *Remote) Abandon() error {
	ctx, cancel := r.callContext()
	defer cancel()
	m := &tagnetv1.ControlRequest{Scope: r.cfg.Scope.message(), Operation: tagnetv1.ControlRequest_OPERATION_ABANDON}
	_, err := r.client.Control(ctx, m) // no retry: a control that gives up does not wait for a host that may be gone
	return clientError(r.cfg.Scope.Name, err)
}

// Stats reads all figures at once.
func (r *Remote) Stats() (core.Stats, error) {
	ctx, cancel := r.callContext()
	defer cancel()
	m, err := r.client.Registers(ctx, &tagnetv1.RegistersRequest{Scope: r.cfg.Scope.message()})
	if err != nil {
		return core.Stats{}, clientError(r.cfg.Scope.Name, err)
	}
	return core.StatsOf(m)
}

// callControl repeats a request until it is answered. A repeated operation changes nothing, and a repeated exclusion
// reports no MEPs that are issued again.
func (r *Remote) callControl(m *tagnetv1.ControlRequest) (n int, err error) {
	ctx, cancel := r.callContext()
	defer cancel()
	m.Scope = r.cfg.Scope.message()
	for {
		answer, err := r.client.Control(ctx, m, grpc.WaitForReady(true))
		if err == nil || status.Code(err) != codes.Unavailable || refusalInfo(err) != nil {
			return int(answer.GetReissued() + answer.GetTaken()), clientError(r.cfg.Scope.Name, err)
		}
		select { // the connection broke during the call
		case <-ctx.Done():
			return int(answer.GetReissued() + answer.GetTaken()), clientError(r.cfg.Scope.Name, err)
		case <-time.After(minRetryDelay):
		}
	}
}
