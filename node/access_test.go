package node

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ringlet/node/certs"
	"ringlet/node/cluster"
	nodev1 "ringlet/proto/ringlet/node/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/tagnet"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
)

// receiver is what the calls below need of one.
type receiver interface{ RecvMsg(any) error }

// first is how a stream ends, unless it sends a message.
func first(s receiver, m any, err error) error {
	if err == nil {
		err = s.RecvMsg(m)
	}
	return err
}

// memberCalls are all methods that a node or a control serves to other members. Each speaks for the name that it is
// given, and is in order but for that.
func (p *pair) memberCalls(name string, scope tagnet.Scope) map[string]func(context.Context, *grpc.ClientConn) error {
	sc := &tagnetv1.Scope{
		Protocol:     8,
		Run:          scope.Run,
		View:         scope.View,
		Name:         name,
		Conversation: 7,
	}
	return map[string]func(context.Context, *grpc.ClientConn) error{
		"Command": func(ctx context.Context, c *grpc.ClientConn) error {
			_, err := nodev1.NewNodeClient(c).Command(ctx, &nodev1.CommandRequest{Protocol: ProtocolVersion,
				Command: nodev1.Command_COMMAND_LOAD})
			return err
		},
		"Watch": func(ctx context.Context, c *grpc.ClientConn) error {
			s, err := nodev1.NewNodeClient(c).Watch(ctx, &nodev1.WatchRequest{})
			return first(s, new(nodev1.Report), err)
		},
		"Report": func(ctx context.Context, c *grpc.ClientConn) error {
			_, err := nodev1.NewNodeClient(c).Report(ctx, &nodev1.ReportRequest{})
			return err
		},
		"Profile": func(ctx context.Context, c *grpc.ClientConn) error {
			return ReadProfile(ctx, nodev1.NewNodeClient(c), io.Discard, "heap", 0)
		},
		"Tap": func(ctx context.Context, c *grpc.ClientConn) error {
			s, err := nodev1.NewNodeClient(c).Tap(ctx, &nodev1.TapRequest{})
			return first(s, new(tapv1.Samples), err)
		},
		"Sample": func(ctx context.Context, c *grpc.ClientConn) error {
			s, err := nodev1.NewNodeClient(c).Sample(ctx, &samplev1.Question{})
			return first(s, new(samplev1.Samples), err)
		},
		"Tokens": func(ctx context.Context, c *grpc.ClientConn) error {
			s, err := tagnetv1.NewTagNetClient(c).Tokens(ctx)
			if err == nil {
				_ = s.Send(&tagnetv1.RUUpdate{Scope: sc}) // Recv tells
			}
			return first(s, new(tagnetv1.Notices), err)
		},
		"Feedback": func(ctx context.Context, c *grpc.ClientConn) error {
			s, err := tagnetv1.NewTagNetClient(c).Feedback(ctx)
			if err == nil {
				_ = s.Send(&tagnetv1.FeedbackBatch{Scope: sc, SlotCount: uint32(testConfig(p.t, "").Slots)})
			}
			return first(s, new(tagnetv1.Notices), err)
		},
		"Registers": func(ctx context.Context, c *grpc.ClientConn) error {
			_, err := tagnetv1.NewTagNetClient(c).Registers(ctx, &tagnetv1.RegistersRequest{Scope: sc})
			return err
		},
		"Follow": func(ctx context.Context, c *grpc.ClientConn) error {
			s, err := tagnetv1.NewTagNetClient(c).Follow(ctx, &tagnetv1.FollowRequest{Scope: sc})
			return first(s, new(tagnetv1.Notice), err)
		},
		"Control": func(ctx context.Context, c *grpc.ClientConn) error {
			_, err := tagnetv1.NewTagNetClient(c).Control(ctx, &tagnetv1.ControlRequest{
				Scope: sc, Operation: tagnetv1.ControlRequest_OPERATION_PAUSE,
			})
			return err
		},
		"Begin": func(ctx context.Context, c *grpc.ClientConn) error {
			_, err := tagnetv1.NewTagNetClient(c).Begin(ctx, &tagnetv1.BeginRequest{Scope: sc})
			return err
		},
		"End": func(ctx context.Context, c *grpc.ClientConn) error {
			_, err := tagnetv1.NewTagNetClient(c).End(ctx, &tagnetv1.EndRequest{Scope: &tagnetv1.Scope{
				Protocol: 8,
				Run:      1,
				View:     1,
				Name:     name,
			}})
			return err
		},
	}
}

// TestNobodySpeaksForAnother has everybody who has a certificate call every method, at a node that has the scheduler
// and at a control that has it.
func TestNobodySpeaksForAnother(t *testing.T) {
	t.Parallel()
	// n0 holds a readout unit and the scheduler, n1 a builder unit, n7 nothing.
	p := newFarm(t, cluster.Readout, cluster.Builder)
	ids := map[string]*certs.Identity{
		"n0": p.idOf("n0", certs.RoleNode), "n1": p.idOf("n1", certs.RoleNode), "n7": p.other, "control": p.id,
		"control called n0": p.idOf("n0", certs.RoleControl),
		"viewer":            p.idOf("vera", certs.RoleViewer), "operator": p.idOf("otto", certs.RoleOperator),
	}
	const refused, unserved = codes.PermissionDenied, codes.Unimplemented
	type verdicts = map[string]codes.Code // OK stands for whatever does not refuse the caller
	byControl := verdicts{"Command": codes.OK, "Watch": codes.OK, "Report": codes.OK, "Profile": codes.OK,
		"Tap": codes.OK, "Sample": codes.OK}
	commands := verdicts{"Control": codes.OK, "Begin": codes.OK, "End": codes.OK, "Registers": codes.OK,
		"Follow": codes.OK}
	reading := verdicts{"Registers": codes.OK, "Follow": codes.OK}
	for _, tt := range []struct {
		who, speaksFor string
		may            []verdicts
	}{
		{"n0", "n0", []verdicts{reading, {"Tokens": codes.OK, "Feedback": codes.InvalidArgument}}},
		{"n1", "n1", []verdicts{reading, {"Feedback": codes.OK, "Tokens": codes.InvalidArgument}}},
		{"n0", "n1", nil}, // another node of the view
		{"n1", "n0", nil},
		{"n7", "n0", nil}, // of no place in it
		{"n7", "n1", nil},
		{"n7", "n7", []verdicts{{"Tokens": codes.InvalidArgument, "Feedback": codes.InvalidArgument}}},
		{"n7", ControlName, nil},
		{"n0", ControlName, nil},
		{"control", ControlName, []verdicts{byControl, commands}},
		{"control", "n0", []verdicts{byControl}},
		{"control called n0", "n0", []verdicts{byControl, commands}},
	} {
		c := testConfig(t, "")
		sc, _ := p.hostScheduler(c)
		p.checkCalls(tt.who+" for "+tt.speaksFor+" at a node", p.connectAs(ids[tt.who], 0), p.memberCalls(tt.speaksFor, sc),
			func(method string) codes.Code {
				return verdict(method, refused, tt.may)
			})
		if err := tagnet.EndScheduler(p.ctx, p.conns[0], sc); err != nil {
			t.Fatal(err)
		}
		_, address := p.scheduler(c)
		sc.View = p.number
		conn := p.dialAs(ids[tt.who], address, ControlName)
		p.checkCalls(tt.who+" for "+tt.speaksFor+" at the control", conn, p.memberCalls(tt.speaksFor, sc),
			func(method string) codes.Code {
				switch method {
				case "Command", "Watch", "Report", "Profile", "Tap":
					return unserved
				}
				return verdict(method, refused, tt.may)
			})
	}
	for _, person := range []string{"viewer", "operator"} { // they do not come to speak with a member at all
		sc, _ := p.hostScheduler(testConfig(t, ""))
		p.checkCalls(person, p.connectAs(ids[person], 0), p.memberCalls(ids[person].Name, sc),
			func(string) codes.Code { return codes.Unavailable })
		if err := tagnet.EndScheduler(p.ctx, p.conns[0], sc); err != nil {
			t.Fatal(err)
		}
	}
	if c := (&process{schedulerHost: tagnet.NewHost(tagnet.Access{})}).countCalls(); c != (callCounters{}) {
		t.Errorf("a node that has refused nobody counts %+v", c)
	}
}

func verdict(method string, otherwise codes.Code, may []map[string]codes.Code) codes.Code {
	for _, v := range may {
		if code, ok := v[method]; ok {
			return code
		}
	}
	return otherwise
}

// checkCalls makes every call and compares the code of its error. OK means that the caller was not refused for who it
// is.
func (p *pair) checkCalls(who string, conn *grpc.ClientConn,
	calls map[string]func(context.Context, *grpc.ClientConn) error,
	want func(method string) codes.Code) {
	p.t.Helper()
	for _, method := range []string{
		"Command", "Watch", "Report", "Profile", "Tap", "Tokens", "Feedback", "Registers", "Follow", "Control", "Begin",
		"End",
	} {
		ctx, cancel := context.WithTimeout(p.ctx, patiently.LongTimeout)
		err := calls[method](ctx, conn)
		cancel()
		got, want := status.Code(err), want(method)
		if want == codes.OK && got != codes.PermissionDenied && got != codes.Unauthenticated && got != codes.Unimplemented &&
			got != codes.DeadlineExceeded {
			continue
		}
		if got != want {
			p.t.Errorf("%s: %s gives %v, want %v: %v", who, method, got, want, err)
		}
	}
}

func (p *pair) idOf(name string, role certs.Role) *certs.Identity { return p.issue(name, role) }

func (p *pair) connectAs(id *certs.Identity, i int) *grpc.ClientConn {
	m := p.view.GetMembers()[i]
	return p.dialAs(id, m.GetGrpcAddress(), m.GetName())
}

func (p *pair) dialAs(id *certs.Identity, address, name string) *grpc.ClientConn {
	p.t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(id.Client(name))))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestLinksAreBetweenNodes holds the certificates of links to the role.
func TestLinksAreBetweenNodes(t *testing.T) {
	issue := issuer.New(t)
	server := issue("n1", certs.RoleNode)
	for _, role := range []certs.Role{certs.RoleNode, certs.RoleControl} {
		id := issue("n0", role)
		name, err := nameSeenBy(t, server, id)
		if (err == nil) != (role == certs.RoleNode) || err == nil && name != "n0" {
			t.Errorf("the certificate of a %s is taken for %q, %v", role, name, err)
		}
	}
}

// nameSeenBy shakes hands and returns what the server takes the client for.
func nameSeenBy(t *testing.T, server, client *certs.Identity) (string, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	dialler := tls.Client(a, client.Client("n1"))
	go func() { done <- dialler.Handshake() }()
	listener := tls.Server(b, server.Server())
	if err := listener.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := patiently.Receive(t, done); err != nil {
		t.Fatal(err)
	}
	return linkPeerName(listener.ConnectionState())
}
