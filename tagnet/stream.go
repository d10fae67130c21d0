package tagnet

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// stream is the server's end of one stream of a unit's session.
type stream struct {
	// Immutable after attach.

	unit     core.Unit
	name     string
	number   uint64
	audience core.Audience
	reader   *reader // the sender's
	wake     chan struct{}
	closed   chan struct{} // closed by close
	admitted chan struct{} // closed by admit, which sets reader before

	taken atomic.Uint64 // entries of the session that the Core has taken, for the next acknowledgement

	closeOnce sync.Once
	err       error // written before closed is closed
}

// close makes the stream's handler return err.
func (st *stream) close(err error) {
	st.closeOnce.Do(func() {
		st.err = err
		close(st.closed)
	})
}

var errClosing = refusalStatus(codes.Unavailable, core.RefusedClosing, nil, "the scheduler is closing")

// unitMessage is a message of a unit.
type unitMessage[M any] interface {
	*M
	GetScope() *tagnetv1.Scope
	GetHad() *tagnetv1.Position
	GetRecall() *tagnetv1.Recall
}

// serveUnit serves one stream of a unit. It passes the first message to check, and each message to decode, whose input,
// if not nil, goes to the Core.
func serveUnit[M any, P unitMessage[M]](s *Server, role core.Role, srv grpc.BidiStreamingServer[M, tagnetv1.Notices],
	check func(P) error, decode func(*stream, P) (core.Input, error)) error {
	if !s.enterHandler() {
		return errClosing
	}
	defer s.wg.Done()
	ctx := srv.Context()
	m, err := receiveFirst(ctx, s, srv.Recv)
	first := P(m)
	if err == nil {
		err = s.authorizer.authorizeUnit(ctx, first.GetScope())
	}
	if err == nil {
		err = s.checkScope(first.GetScope(), false)
	}
	if err == nil {
		err = check(first)
	}
	if err != nil {
		return err
	}
	st, err := s.attach(ctx, role, first.GetScope(), first.GetHad(), first.GetRecall())
	if err != nil {
		return err
	}
	receive := func() error {
		for m := first; ; {
			if m.GetScope() != nil && m != first {
				return s.refuse(core.RefusedMessage, "scope", "none", "%s sent a second scope", st.name)
			}
			in, err := decode(st, m)
			if err != nil {
				return err
			}
			if in != nil && !s.post(ctx.Done(), func() { s.core.Step(s.now(), in) }) {
				return ctx.Err()
			}
			if m, err = srv.Recv(); err != nil {
				return err
			}
		}
	}
	return s.runBothDirections(ctx, st, receive, func() error { return s.sendUntilDrained(ctx, st, srv.Send) })
}

// serveTokens serves one readout unit.
func (s *Server) serveTokens(srv tagnetv1.TagNet_TokensServer) error {
	return serveUnit(s, core.Readout, srv, func(*tagnetv1.RUUpdate) error { return nil }, s.decodeUpdate)
}

// decodeUpdate decodes a readout unit's message.
func (s *Server) decodeUpdate(st *stream, m *tagnetv1.RUUpdate) (core.Input, error) {
	returned, ok := decodeTags(m.GetReturned())
	if !ok {
		return nil, s.refuse(core.RefusedMessage, len(m.GetReturned()), "", "%s returned undecodable tags", st.name)
	}
	return core.Report{
		Unit:          st.unit.Index,
		Stream:        st.number,
		Update:        core.Update{ReadBelow: m.GetRead(), Events: m.GetEvents(), InputEnded: m.GetEnd()},
		Reach:         decodeReach(m.GetReach()),
		Stop:          m.Stop,
		Cleared:       m.GetCleared(),
		Returned:      returned,
		ReturnedFirst: m.GetReturnedFirst(),
		Confirmed:     m.GetSettled(),
	}, nil
}

// serveFeedback serves one builder unit.
func (s *Server) serveFeedback(srv tagnetv1.TagNet_FeedbackServer) error {
	return serveUnit(s, core.Builder, srv, s.checkBuilder, s.decodeFeedback)
}

// checkBuilder checks the slots in a builder unit's first message, which may have no feedback.
func (s *Server) checkBuilder(m *tagnetv1.FeedbackBatch) error {
	name := m.GetScope().GetName()
	if got, want := m.GetSlotCount(), s.cfg.Core.Slots; got != uint32(want) {
		return s.refuse(core.RefusedSlots, got, want, "%q has %d slots, the view says %d", name, got, want)
	}
	if n := len(m.GetMeps()); n > 0 {
		return s.refuse(core.RefusedMessage, n, 0, "%q sent feedback before it was attached", name)
	}
	return nil
}

// decodeFeedback checks a builder unit's message. The first message has no input: it only attaches.
func (s *Server) decodeFeedback(st *stream, m *tagnetv1.FeedbackBatch) (core.Input, error) {
	switch {
	case m.GetScope() != nil:
		return nil, nil
	case !listLengthsMatch(m):
		return nil, s.refuse(core.RefusedMessage, len(m.GetMeps()), "", "%s sent feedback whose lists do not fit together",
			st.name)
	}
	return core.Outcomes{Unit: st.unit.Index, Stream: st.number, Batch: m}, nil
}

// attach tells the Core of the stream of a unit, whose scope was checked. To a successor, it waits until the state is
// rebuilt.
func (s *Server) attach(ctx context.Context, role core.Role, sc *tagnetv1.Scope, had *tagnetv1.Position,
	message *tagnetv1.Recall) (*stream, error) {
	recall, fits := decodeRecall(message, &s.cfg.Core)
	if !fits {
		return nil, s.refuse(core.RefusedMessage, len(message.GetMeps()), "",
			"%q says of the lost scheduler what cannot be true", sc.GetName())
	}
	unit, ok := s.units[role][s.substitutes.memberOf(sc.GetName())]
	switch {
	case !ok:
		return nil, s.refuse(core.RefusedName, sc.GetName(), "", "view %d has no %s %q", s.cfg.View, role, sc.GetName())
	case sc.GetConversation() == 0:
		return nil, s.refuse(core.RefusedMessage, 0, "a number", "%q has no number for its session", sc.GetName())
	}
	st := &stream{
		unit:     core.Unit{Role: role, Index: unit},
		name:     sc.GetName(),
		audience: core.ForReadouts,
		wake:     make(chan struct{}, 1),
		closed:   make(chan struct{}),
		admitted: make(chan struct{}),
	}
	if role == core.Builder {
		st.audience = core.ForBuilders
	} else if unit == 0 {
		st.audience |= core.ForFirstRU
	}
	var a core.Answer
	s.runAsOwner(func() {
		s.streamCount++
		st.number = s.streamCount
		if a = s.core.Step(s.now(), core.Attach{Unit: st.unit, Stream: st.number, Session: sc.GetConversation(),
			Had: core.Position{Term: had.GetTerm(), Next: had.GetNext()}, Recall: recall}); a.Err != nil {
			return
		}
		s.streams[st.number] = st
		if !a.Pending {
			st.admit(s.log, a)
		}
	})
	if a.Err != nil {
		return nil, s.refusal(a.Err)
	}
	select {
	case <-st.admitted:
		return st, nil
	case <-st.closed:
		return nil, st.err
	case <-ctx.Done():
		s.detach(st, ctx.Err())
		return nil, ctx.Err()
	case <-s.quit:
		return nil, errClosing
	}
}

// admit sets what the stream sends first.
func (st *stream) admit(log *noticeLog, a core.Answer) {
	st.taken.Store(a.Taken)
	st.reader = &reader{log: log, who: st.audience, ru: st.unit.Index, known: a.Known, next: a.Next}
	close(st.admitted)
}

// detach tells the Core that a stream has ended. Unless the unit ended it in order, the unit may resume or is lost.
func (s *Server) detach(st *stream, err error) {
	if isClosed(s.quit) || errors.Is(err, errClosing) {
		err = nil
	}
	in := core.Detached{Unit: st.unit, Stream: st.number, Err: err, Final: refusalInfo(err) != nil}
	if status.Code(err) == codes.InvalidArgument {
		in.Incident = core.UnitMisbehaved
	}
	s.runAsOwner(func() {
		delete(s.streams, st.number)
		s.core.Step(s.now(), in)
	})
}

// receiveFirst receives the first message of a stream, and returns when the stream or the Server ends before.
func receiveFirst[T any](ctx context.Context, s *Server, recv func() (T, error)) (T, error) {
	type result struct {
		m   T
		err error
	}
	got := make(chan result, 1)
	s.wg.Go(func() {
		m, err := recv()
		got <- result{m, err}
	})
	var none T
	select {
	case r := <-got:
		return r.m, r.err
	case <-ctx.Done():
		return none, status.FromContextError(ctx.Err()).Err()
	case <-s.quit:
		return none, errClosing
	}
}

// sendUntilDrained sends whenever the stream is woken, until it has sent that the view is drained.
func (s *Server) sendUntilDrained(ctx context.Context, st *stream, send func(*tagnetv1.Notices) error) error {
	for {
		m, ok := st.reader.message(st.taken.Load())
		if !ok {
			return s.refuse(core.RefusedLagging, st.reader.next, "", "%s has not taken notice %d in time", st.name,
				st.reader.next)
		}
		if m != nil {
			if err := send(m); err != nil {
				return err
			}
			if core.State(m.GetState()) == core.Drained {
				return nil
			}
			continue
		}
		select {
		case <-st.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.quit:
			return errClosing
		}
	}
}

// runBothDirections runs both directions of an attached stream until one of them ends it. Both have a goroutine of
// their own: when the handler returns, gRPC unblocks whatever call they are in.
func (s *Server) runBothDirections(ctx context.Context, st *stream, receive, send func() error) error {
	received, sent := make(chan error, 1), make(chan error, 1)
	s.wg.Go(func() { received <- receive() })
	s.wg.Go(func() { sent <- send() })
	err := func() error {
		for {
			select {
			case err := <-sent:
				return err
			case err := <-received:
				if !errors.Is(err, io.EOF) {
					return err
				}
				received = nil // the unit sends nothing more, but may still receive
			case <-st.closed:
				return st.err
			case <-ctx.Done():
				return ctx.Err()
			case <-s.quit:
				return errClosing
			}
		}
	}()
	s.detach(st, err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return err
}
