package tagnet

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// stream is the server's end of one unit's session.
type stream struct {
	// Immutable after attach.

	role   Role
	name   string
	unit   int // index in the view
	wake   chan struct{}
	closed chan struct{} // closed by close

	// Owned by the owner goroutine.

	unacked      int  // entries of feedback that have been applied since its sender was woken
	ackRequested bool // who sent them asks for an acknowledgement

	rejoin rejoinPoint // written by attach

	appliedEntries atomic.Uint64 // entries of feedback that have been applied in the session

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

var errClosing = refusalStatus(codes.Unavailable, refusedClosing, nil, "the scheduler is closing")

// serveTokens serves one readout unit.
func (s *Server) serveTokens(srv tagnetv1.TagNet_TokensServer) error {
	if !s.enterHandler() {
		return errClosing
	}
	defer s.wg.Done()
	st, first, err := acceptStream(srv.Context(), s, Readout, s.ruIndex, srv.Recv, nil)
	if err != nil {
		return err
	}
	receive := func() error {
		for m := first; ; {
			if m.GetScope() != nil && m != first {
				return s.refuse(codes.InvalidArgument, RefusedMessage, "scope", "none", "%s sent a second scope", st.name)
			}
			in, err := s.decodeUpdate(st, m)
			if err != nil {
				return err
			}
			if !s.post(srv.Context().Done(), in) {
				return srv.Context().Err()
			}
			if m, err = srv.Recv(); err != nil {
				return err
			}
		}
	}
	send := func() error {
		r, err := s.resumeReader(st, first.GetHad())
		if err != nil {
			return err
		}
		return s.sendUntilDrained(srv.Context(), st, func() (bool, error) {
			m, ok := r.nextMessage()
			if !ok {
				return false, s.refuse(codes.ResourceExhausted, RefusedLagging, r.next, "", "%s has not taken cycle %d in time",
					st.name, r.next)
			}
			if m == nil {
				return false, nil
			}
			return true, srv.Send(m)
		}, func() bool { return r.state == Drained })
	}
	return s.runBothDirections(srv.Context(), st, receive, send)
}

// decodeUpdate reads a readout unit's message.
func (s *Server) decodeUpdate(st *stream, m *tagnetv1.RUUpdate) (in ownerInput, err error) {
	returned, ok := decodeTags(m.GetReturned())
	if !ok {
		return in, s.refuse(codes.InvalidArgument, RefusedMessage, len(m.GetReturned()), "", "%s returned what are no tags",
			st.name)
	}
	return ownerInput{
		stream:              st,
		reach:               decodeReach(m.GetReach()),
		update:              s.absoluteUpdate(st, m),
		returnedTags:        returned,
		returnedFirst:       m.GetReturnedFirst(),
		confirmedExclusions: m.GetSettled(),
		confirmedFirst:      m.GetSettledFirst(),
	}, nil
}

// absoluteUpdate is what a readout unit holds. One that rejoined counts events from its rejoin on.
func (s *Server) absoluteUpdate(st *stream, m *tagnetv1.RUUpdate) Update {
	return Update{
		ReadBelow:  max(m.GetRead(), s.cfg.Core.FirstMEP, st.rejoin.absence.FirstMEP),
		Events:     st.rejoin.eventsBefore + m.GetEvents(),
		InputEnded: m.GetEnd(),
	}
}

// resumeReader is the position in the log from which a readout unit goes on.
func (s *Server) resumeReader(st *stream, received *tagnetv1.Position) (*reader, error) {
	r, ok := s.tokenLog.readerFrom(received, st.rejoin)
	if !ok {
		return nil, s.refuse(codes.InvalidArgument, RefusedMessage, received, "",
			"%s says it has had what was never sent to it",
			st.name)
	}
	r.isFirstRU, r.isLastRU = st.unit == 0, st.unit == len(s.cfg.Core.RUs)-1
	return r, nil
}

// serveFeedback serves one builder unit.
func (s *Server) serveFeedback(srv tagnetv1.TagNet_FeedbackServer) error {
	if !s.enterHandler() {
		return errClosing
	}
	defer s.wg.Done()
	st, _, err := acceptStream(srv.Context(), s, Builder, s.buIndex, srv.Recv, s.checkBuilder)
	if err != nil {
		return err
	}
	receive := func() error {
		for {
			m, err := srv.Recv()
			if err != nil {
				return err
			}
			if m.GetScope() != nil || !listLengthsMatch(m) {
				return s.refuse(codes.InvalidArgument, RefusedMessage, len(m.GetMeps()), "",
					"%s sent feedback whose lists do not fit together", st.name)
			}
			if !s.post(srv.Context().Done(), ownerInput{stream: st, feedback: m}) {
				return srv.Context().Err()
			}
		}
	}
	send := func() error {
		lastSent, absencesSent := &tagnetv1.FeedbackAck{}, 0 // state unspecified: the first is always sent
		return s.sendUntilDrained(srv.Context(), st, func() (bool, error) {
			m := st.ackMessage(s.tokenLog.currentState())
			m.Absent = encodeAbsences(s.tokenLog.absencesFrom(absencesSent))
			if m.Done == lastSent.Done && m.State == lastSent.State && len(m.Absent) == 0 {
				return false, nil
			}
			absencesSent += len(m.Absent) / wordsPerAbsence
			lastSent = m
			return true, srv.Send(m)
		}, func() bool { return State(lastSent.State) == Drained })
	}
	return s.runBothDirections(srv.Context(), st, receive, send)
}

// checkBuilder checks what is special about a builder unit's first message.
func (s *Server) checkBuilder(m *tagnetv1.FeedbackBatch) error {
	name := m.GetScope().GetName()
	if got, want := m.GetSlotCount(), s.cfg.Core.Slots; got != uint32(want) {
		return s.refuse(codes.FailedPrecondition, RefusedSlots, got, want, "%q has %d slots, the view says %d", name, got,
			want)
	}
	if n := len(m.GetMeps()); n > 0 {
		return s.refuse(codes.InvalidArgument, RefusedMessage, n, 0, "%q sent feedback before it was attached", name)
	}
	return nil
}

// acceptStream takes the first message of a unit's stream, which check may look at, and attaches the unit.
func acceptStream[M interface{ GetScope() *tagnetv1.Scope }](ctx context.Context, s *Server, role Role,
	units map[string]int, recv func() (M, error), check func(M) error,
) (st *stream, first M, err error) {
	first, err = receiveFirst(ctx, s, recv)
	if err == nil {
		err = s.authorizer.authorizeUnit(ctx, first.GetScope())
	}
	if err == nil {
		err = s.checkScope(first.GetScope(), false)
	}
	if err == nil && check != nil {
		err = check(first)
	}
	if err == nil {
		st, err = s.attach(role, first.GetScope(), units)
	}
	return st, first, err
}

// receiveFirst receives the first message of a stream without being held up by a client that sends none.
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

func (st *stream) ackMessage(state State) *tagnetv1.FeedbackAck {
	return &tagnetv1.FeedbackAck{Done: st.appliedEntries.Load(), State: tagnetv1.State(state)}
}

// sendUntilDrained sends whenever the stream is woken, until sendNext has told the peer that the view is drained.
func (s *Server) sendUntilDrained(ctx context.Context, st *stream, sendNext func() (bool, error),
	drained func() bool) error {
	for {
		for {
			sent, err := sendNext()
			if err != nil {
				return err
			}
			if drained() {
				return nil
			}
			if !sent {
				break
			}
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

// runBothDirections runs both directions of an attached stream until the first of them ends it. Both run on goroutines
// of their own: once the handler returns, gRPC lets go of whatever call they are blocked in.
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
				received = nil // it has nothing more to say, but may listen
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
