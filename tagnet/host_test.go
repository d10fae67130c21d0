package tagnet

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// hosted is a Host on an in-memory network.
type hosted struct {
	host  *Host
	dial  func() *grpc.ClientConn
	lines chan net.Conn // every connection that was made
}

func host(t testing.TB, access Access) *hosted {
	t.Helper()
	h := &hosted{host: NewHost(access), lines: make(chan net.Conn, 16)}
	server, listener := grpc.NewServer(), bufconn.Listen(1<<20)
	h.host.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		h.host.Close()
		server.Stop()
		if err := patiently.Receive(t, served); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	h.dial = func() *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///host", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				line, err := listener.DialContext(ctx)
				if err == nil {
					h.lines <- line
				}
				return line, err
			}))
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	return h
}

func twoByTwo() core.Config {
	return core.Config{
		RUs:     names("ru", 2),
		BUs:     names("bu", 2),
		Slots:   4,
		Packing: 1,
	}
}

var seventh = Scope{Run: 7, View: 3, Name: "control"}

// refusedAs is why a call was refused, and its code.
func refusedAs(t *testing.T, err error) (core.Refusal, codes.Code) {
	t.Helper()
	var remote *RemoteError
	if !errors.As(err, &remote) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return remote.Refusal, status.Code(remote.Err)
}

func TestHostBeginsAndEnds(t *testing.T) {
	h := host(t, Access{})
	conn, ctx := h.dial(), testContext(t)
	refused := func(what string, err error, why core.Refusal, code codes.Code) {
		t.Helper()
		if gotWhy, gotCode := refusedAs(t, err); gotWhy != why || gotCode != code {
			t.Errorf("%s was refused as %s (%v), want %s (%v)", what, gotWhy, gotCode, why, code)
		}
	}
	_, err := newRUClient(ctx, conn, Scope{Run: 7, View: 3, Name: "ru0"}, nil)
	refused("a unit without a scheduler", err, core.RefusedNoView, codes.Unavailable)
	if err := EndScheduler(ctx, conn, seventh); err != nil {
		t.Errorf("ending nothing: %v", err)
	}
	bad := twoByTwo()
	bad.Slots = 0
	refused("no slots", BeginScheduler(ctx, conn, seventh, bad, UnitTimeouts{}), core.RefusedMessage,
		codes.InvalidArgument)
	bad.Slots = core.MaxSlots
	refused("more memory than a host has", BeginScheduler(ctx, conn, seventh, bad, UnitTimeouts{}), core.RefusedMessage,
		codes.InvalidArgument)
	for range 2 { // the second time changes nothing
		must(t, BeginScheduler(ctx, conn, seventh, twoByTwo(), UnitTimeouts{Attach: time.Minute}))
	}
	first := h.host.Server()
	refused("another configuration", BeginScheduler(ctx, conn, seventh, twoByTwo(), UnitTimeouts{Attach: time.Hour}),
		core.RefusedBusy, codes.FailedPrecondition)
	eighth := Scope{Run: 8, View: 4, Name: "control"}
	refused("another run", BeginScheduler(ctx, conn, eighth, twoByTwo(), UnitTimeouts{}), core.RefusedBusy,
		codes.FailedPrecondition)
	refused("the end of another run", EndScheduler(ctx, conn, eighth), core.RefusedRun, codes.FailedPrecondition)
	if h.host.Server() != first {
		t.Error("the scheduler is another one")
	}
	first.Drain(0)
	patiently.Receive(t, first.Drained())
	if err := BeginScheduler(ctx, conn, eighth, twoByTwo(), UnitTimeouts{}); err != nil {
		t.Errorf("a drained scheduler did not give way: %v", err)
	}
	for range 2 {
		if err := EndScheduler(ctx, conn, eighth); err != nil {
			t.Error(err)
		}
	}
	if h.host.Server() != nil {
		t.Error("there is still a scheduler")
	}
}

// TestRemoteComesBack drives a view by remote controls, the first of which goes away without a word.
func TestRemoteComesBack(t *testing.T) {
	const meps, slots = 400, 4
	h := host(t, Access{})
	ctx := testContext(t)
	view := twoByTwo()
	view.Slots = slots
	first := h.dial()
	must(t, BeginScheduler(ctx, first, seventh, view, UnitTimeouts{Attach: time.Minute}))
	before := NewRemote(first, RemoteConfig{Scope: seventh})
	defer before.Close()
	sys := &system{conn: h.dial(), cfg: serverConfig{Core: view}}
	rus, bus := sys.attachAll(t)
	g, gctx := errgroup.WithContext(ctx)
	var seen [meps]atomic.Int32
	halfway := make(chan struct{})
	for i, c := range rus {
		g.Go(func() error {
			return readAhead(gctx, c, meps, 40, 1, func(tok core.Token) error {
				if i == 0 && tok.MEP == meps/2 {
					close(halfway)
				}
				if int(seen[tok.MEP].Add(1)) < len(rus) {
					return nil
				}
				return build(bus[tok.BU], tok, 1)
			})
		})
	}
	patiently.Receive(t, halfway)
	if err := first.Close(); err != nil { // what a killed control does
		t.Fatal(err)
	}
	states := make(chan core.State, 64)
	after := NewRemote(h.dial(), RemoteConfig{Scope: seventh, OnState: func(s core.State) { states <- s }})
	defer after.Close()
	must(t, patiently.Result(t, g.Wait))
	patiently.Receive(t, after.Drained())
	var got []core.State
	for len(got) == 0 || got[len(got)-1] != core.Drained {
		got = append(got, patiently.Receive(t, states))
	}
	if want := []core.State{core.Idle, core.Running, core.Draining, core.Drained}; !slices.Equal(got, want) &&
		!slices.Equal(got, []core.State{core.Idle, core.Running, core.Drained}) {
		t.Errorf("the returned control was told %v, want %v", got, want)
	}
	stats, err := after.Stats()
	must(t, err)
	local := h.host.Server().Registers()
	for _, r := range []*core.Registers{stats.Registers, local} { // units leave a drained scheduler in their own time
		for _, u := range r.Rus {
			u.Attached = false
		}
		for _, u := range r.Bus {
			u.Attached = false
		}
	}
	if !proto.Equal(stats.Registers, local) || stats.Counters.Built != meps || stats.Latency.TotalCount() != meps {
		t.Errorf("remote figures are\n%+v\nthe host's\n%+v", stats, local)
	}
}

// TestRemoteOperates does by a Remote what a Server can.
func TestRemoteOperates(t *testing.T) {
	h := host(t, Access{})
	conn, ctx := h.dial(), testContext(t)
	must(t, BeginScheduler(ctx, conn, seventh, twoByTwo(), UnitTimeouts{Attach: time.Millisecond}))
	peers, gone := make(chan *core.UnitError, 8), make(chan error, 1)
	r := NewRemote(conn, RemoteConfig{Scope: seventh, OnIncident: func(e *core.UnitError) { peers <- e },
		OnGone: func(err error) { gone <- err }})
	defer r.Close()
	missing := map[string]bool{}
	for range 4 {
		e := patiently.Receive(t, peers)
		if e.Incident != core.UnitMissing || e.Err != nil {
			t.Errorf("told %v", e)
		}
		missing[e.Role.String()+" "+e.Unit] = true
	}
	if len(missing) != 4 || !missing["builder unit bu1"] {
		t.Errorf("missing are %v", missing)
	}
	sys := &system{conn: conn, cfg: serverConfig{Core: twoByTwo()}}
	_, bus := sys.attachAll(t)
	_ = bus[0].Close()
	if e := patiently.Receive(t, peers); e.Incident != core.UnitLost || e.Unit != "bu0" || e.Err == nil {
		t.Errorf("told %v", e)
	}
	for name, err := range map[string]error{"pause": r.Pause(), "resume": r.Resume(), "readout unit": r.ExcludeRU("ru1")} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := r.ExcludeBU("bu0"); n != 0 || err != nil {
		t.Errorf("exclude: %d, %v", n, err)
	}
	if err := r.ReadmitBU("bu0"); err != nil {
		t.Errorf("another process of a lost unit may not attach: %v", err)
	}
	if st, err := r.Stats(); err != nil || !st.Registers.Bus[0].Lost || st.Registers.Bus[0].Counters.Exclusions != 1 {
		t.Errorf("%+v, %v", st.Registers.Bus, err)
	}
	if err := r.IncludeBU("bu9"); !errors.Is(err, errUnknownUnit) {
		t.Errorf("including an unknown unit gives %v", err)
	}
	if err := r.Drain(0); err != nil {
		t.Error(err)
	}
	patiently.Receive(t, r.Drained())
	if err := r.Pause(); err == nil {
		t.Error("a drained scheduler was paused")
	}
	must(t, EndScheduler(ctx, conn, seventh))
	if err := patiently.Receive(t, gone); !errors.Is(err, errEnded) {
		t.Errorf("the end is told as %v", err)
	}
	if _, err := r.Stats(); err == nil {
		t.Error("an ended scheduler has figures")
	}
	late := NewRemote(conn, RemoteConfig{Scope: seventh, OnGone: func(err error) { gone <- err }})
	defer late.Close()
	if why, _ := refusedAs(t, patiently.Receive(t, gone)); why != core.RefusedNoView {
		t.Errorf("a scheduler that is not there is told as %s", why)
	}
}

// TestRemoteReconnects cuts the connection of a Remote: it is told what happened meanwhile, and nothing twice.
func TestRemoteReconnects(t *testing.T) {
	h := host(t, Access{})
	conn, ctx := h.dial(), testContext(t)
	must(t, BeginScheduler(ctx, conn, seventh, twoByTwo(), UnitTimeouts{}))
	states := make(chan core.State, 64)
	r := NewRemote(conn, RemoteConfig{Scope: seventh, OnState: func(s core.State) { states <- s }})
	defer r.Close()
	sys := &system{conn: h.dial(), cfg: serverConfig{Core: twoByTwo()}}
	sys.attachAll(t)
	for got := core.Idle; got != core.Running; { // it is told no more where the units attach before it listens
		if got = patiently.Receive(t, states); got != core.Idle && got != core.Running {
			t.Fatalf("told %v", got)
		}
	}
	_ = patiently.Receive(t, h.lines).Close() // the first that was made
	must(t, h.host.Server().Pause())
	if got := patiently.Receive(t, states); got != core.Paused {
		t.Errorf("told %v after the connection was cut", got)
	}
	if err := r.Resume(); err != nil { // by the new connection
		t.Error(err)
	}
	if got := patiently.Receive(t, states); got != core.Running {
		t.Errorf("told %v, want running", got)
	}
	select {
	case got := <-states:
		t.Errorf("told %v twice", got)
	default:
	}
}
