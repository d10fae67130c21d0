package tagnet

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

func TestServerGoesAway(t *testing.T) {
	sys := serve(t, small(1, 1))
	rus, bus := sys.attachAll(t)
	sys.server.Close()
	var err error
	for err == nil {
		_, err = rus[0].Next(testContext(t))
	}
	patiently.Receive(t, bus[0].Done())
	for _, err := range []error{err, bus[0].Err(), bus[0].SendFeedback(core.Feedback{}), bus[0].Flush(testContext(t))} {
		var gone *GoneError
		if err != nil && (!errors.Is(err, ErrGone) || !errors.As(err, &gone)) {
			t.Errorf("got %v, want %v", err, ErrGone)
		}
	}
	if !errors.Is(rus[0].Update(core.Update{ReadBelow: 1}), ErrGone) {
		t.Error("Update did not tell that the server is gone")
	}
	if core.State(sys.server.Registers().State) != core.Running {
		t.Error("the registers are not readable after Close")
	}
	if _, err := newRUClient(testContext(t), sys.conn, sys.scope("ru0"), nil); !errors.Is(err, ErrGone) {
		t.Errorf("attaching to a closed server: %v", err)
	}
}

// TestCloseWithSilentStreams closes a server while a client has opened a stream and said nothing.
func TestCloseWithSilentStreams(t *testing.T) {
	sys := serve(t, small(1, 1))
	stream, err := tagnetv1.NewTagNetClient(sys.conn).Tokens(testContext(t))
	must(t, err)
	sys.server.Close()
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream outlived its server")
	}
}

func TestNextHonoursItsContext(t *testing.T) {
	sys := serve(t, small(1, 1))
	c := sys.ru(t, "ru0")
	if first, err := c.Next(testContext(t)); err != nil || first.Len() != 0 || first.State != core.Idle {
		t.Fatalf("first batch %+v, %v", first, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	c.Close()
	if _, err := c.Next(testContext(t)); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestControlAndRegisters(t *testing.T) {
	sys := serve(t, small(1, 2))
	sys.attachAll(t)
	ctx := testContext(t)
	client := tagnetv1.NewTagNetClient(sys.conn)
	control := func(op tagnetv1.ControlRequest_Operation, target string) (*tagnetv1.ControlResponse, error) {
		return client.Control(ctx, &tagnetv1.ControlRequest{Scope: sys.scope("").message(), Operation: op, Target: target})
	}
	for _, tt := range []struct {
		op     tagnetv1.ControlRequest_Operation
		target string
		code   codes.Code
		state  tagnetv1.State
	}{
		{tagnetv1.ControlRequest_OPERATION_PAUSE, "", codes.OK, tagnetv1.State_STATE_PAUSED},
		{tagnetv1.ControlRequest_OPERATION_RESUME, "", codes.OK, tagnetv1.State_STATE_RUNNING},
		{tagnetv1.ControlRequest_OPERATION_EXCLUDE_BU, "bu1", codes.OK, tagnetv1.State_STATE_RUNNING},
		{tagnetv1.ControlRequest_OPERATION_INCLUDE_BU, "bu1", codes.FailedPrecondition, 0},
		{tagnetv1.ControlRequest_OPERATION_EXCLUDE_BU, "bu9", codes.InvalidArgument, 0},
		{tagnetv1.ControlRequest_OPERATION_UNSPECIFIED, "", codes.InvalidArgument, 0},
		{99, "", codes.InvalidArgument, 0},
		{tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU, "ru0", codes.OK, tagnetv1.State_STATE_DRAINED},
		{tagnetv1.ControlRequest_OPERATION_DRAIN, "", codes.OK, tagnetv1.State_STATE_DRAINED},
		{tagnetv1.ControlRequest_OPERATION_ABANDON, "", codes.OK, tagnetv1.State_STATE_DRAINED},
		{tagnetv1.ControlRequest_OPERATION_PAUSE, "", codes.FailedPrecondition, 0},
	} {
		r, err := control(tt.op, tt.target)
		if status.Code(err) != tt.code || r.GetState() != tt.state {
			t.Errorf("%v %q: got %v, %v; want %v, %v", tt.op, tt.target, r.GetState(), err, tt.state, tt.code)
		}
	}
	r, err := client.Registers(ctx, &tagnetv1.RegistersRequest{Scope: &tagnetv1.Scope{Protocol: protocolVersion}})
	must(t, err)
	if r.GetRun() != 7 || r.GetState() != tagnetv1.State_STATE_DRAINED || r.GetPolicy() != tagnetv1.Policy_POLICY_WAIT ||
		!r.GetRus()[0].GetExcluded() || r.GetBus()[1].GetFree() != 2 || r.GetCounters().GetRefused()[core.NotNow] != 2 ||
		r.GetRefused()[string(core.RefusedNotNow)] != 2 {
		t.Errorf("registers read %v", r)
	}
	if _, err := client.Registers(ctx, &tagnetv1.RegistersRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("registers without scope: %v", err)
	}
}
