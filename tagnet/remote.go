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

// errEnded is what RemoteConfig.OnGone is told when the scheduler has been ended by an End.
var errEnded = errors.New("tagnet: the scheduler has been ended")

// RemoteConfig describes a scheduler on a host.
type RemoteConfig struct {
	Scope Scope // run and view; the name is whoever asks

	// OnIncident and OnState are told everything since the scheduler began, also what happened before NewRemote or while
	// the host could not be reached, in order, on one goroutine. They may call any method of the Remote but Close. Nil:
	// nobody wants to know.
	OnIncident func(*core.UnitError)
	OnState    func(core.State)
	// OnGone is told once, on the same goroutine, that the host does not have this scheduler any more: errEnded, or the
	// *RemoteError with which it says so. A host that cannot be reached is no such case. Nil: nobody wants to know.
	OnGone func(error)
	// MinCallTimeout is how long a call may take at least. Zero: 5 s.
	MinCallTimeout time.Duration
}

// Remote is a Scheduler that lives on a host. It survives broken connections, and it may be made again by another
// process.
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

// callTimeout bounds each call, see RemoteConfig.MinCallTimeout.
const callTimeout = 5 * time.Second

// callContext bounds a call.
func (r *Remote) callContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.ctx, max(callTimeout, r.cfg.MinCallTimeout))
}

// BeginScheduler has a host make the scheduler of a view. If it has just that scheduler, nothing changes. The
// connection should be made with the credentials of the control. A *RemoteError tells why the host refuses, a
// *GoneError that it cannot be reached.
func BeginScheduler(ctx context.Context, conn grpc.ClientConnInterface, scope Scope, c core.Config,
	attachTimeout time.Duration) error {
	_, err := tagnetv1.NewTagNetClient(conn).Begin(ctx, newBeginRequest(scope, &c, attachTimeout))
	return clientError(scope.Name, err)
}

// EndScheduler has a host close the scheduler of a view. It is no error if the host has none. A scope of run and view 0
// means whichever it has.
func EndScheduler(ctx context.Context, conn grpc.ClientConnInterface, scope Scope) error {
	_, err := tagnetv1.NewTagNetClient(conn).End(ctx, &tagnetv1.EndRequest{Scope: scope.message()})
	return clientError(scope.Name, err)
}

// NewRemote takes up a scheduler that has begun on the host at conn, which stays the caller's. Close ends it.
func NewRemote(conn grpc.ClientConnInterface, cfg RemoteConfig) *Remote {
	r := &Remote{cfg: cfg, client: tagnetv1.NewTagNetClient(conn), drained: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.commands = r.callControl
	r.wg.Go(r.followNotices)
	return r
}

// Close ends the session. The scheduler goes on; End is what ends it.
func (r *Remote) Close() {
	r.cancel()
	r.wg.Wait()
}

// Drained is closed when the host has told that the view is drained.
func (r *Remote) Drained() <-chan struct{} { return r.drained }

// How long to wait before a broken stream of notices is asked for again: gRPC has its own waits between attempts to
// connect, so this is for a host that answers and refuses.
const (
	minFollowDelay = 50 * time.Millisecond
	maxFollowDelay = time.Second
)

// followNotices takes notices until the Remote is closed or the scheduler is gone.
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

// goneCause is why the scheduler is not there any more; nil if the stream has only broken.
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

// receiveNotices takes notices until the stream ends.
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
	_, err := r.client.Control(ctx, m) // once: who gives up does not wait for a host that may be gone
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

// callControl asks for an operation until it has an answer. Each may be repeated: the second time it changes nothing,
// and an exclusion then tells of no MEP that is issued again.
func (r *Remote) callControl(m *tagnetv1.ControlRequest) (reissued int, err error) {
	ctx, cancel := r.callContext()
	defer cancel()
	m.Scope = r.cfg.Scope.message()
	for {
		answer, err := r.client.Control(ctx, m, grpc.WaitForReady(true))
		if err == nil || status.Code(err) != codes.Unavailable || refusalInfo(err) != nil {
			return int(answer.GetReissued()), clientError(r.cfg.Scope.Name, err)
		}
		select { // the connection broke while the call was under way
		case <-ctx.Done():
			return int(answer.GetReissued()), clientError(r.cfg.Scope.Name, err)
		case <-time.After(minRetryDelay):
		}
	}
}
