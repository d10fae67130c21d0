package api_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/apitest"
	"ringlet/testkit/patiently"
)

// call uses a method of RunControl with an empty question and returns the code of what comes first.
func call(ctx context.Context, conn *grpc.ClientConn, method string) codes.Code {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, s := range ecsv1.RunControl_ServiceDesc.Streams {
		if !strings.HasSuffix(method, "/"+s.StreamName) {
			continue
		}
		stream, err := conn.NewStream(ctx, &s, method)
		if err != nil {
			return status.Code(err)
		}
		if err := stream.SendMsg(&ecsv1.WatchRequest{After: 1}); err != nil && !errors.Is(err, io.EOF) {
			return status.Code(err)
		}
		_ = stream.CloseSend()
		return status.Code(stream.RecvMsg(empty()))
	}
	return status.Code(conn.Invoke(ctx, method, &ecsv1.GetStatusRequest{}, empty()))
}

// empty is a message that takes whatever comes: what is in it is not looked at.
func empty() proto.Message {
	return dynamicpb.NewMessage(ecsv1.File_ringlet_ecs_v1_ecs_proto.Messages().ByName("GetStatusRequest"))
}

func TestEveryMethodForEveryRole(t *testing.T) {
	for _, role := range []certs.Role{
		certs.RoleNode, certs.RoleViewer, certs.RoleOperator, certs.RoleAdmin, certs.RoleControl,
	} {
		t.Run(string(role), func(t *testing.T) {
			h := newFixture(t, apitest.Options{WithPastRuns: true})
			for range 2 {
				h.fake.Add(&ecsv1.Event{Kind: "alarm", Text: "something to watch"})
			}
			for _, name := range methods() {
				method := "/ringlet.ecs.v1.RunControl/" + name
				least, listed := api.Roles[method]
				if !listed {
					t.Errorf("%s is not in the table of roles", name)
				}
				has := map[certs.Role]ecsv1.Role{certs.RoleViewer: 1, certs.RoleOperator: 2, certs.RoleAdmin: 3,
					certs.RoleControl: 3}[role]
				who := "somebody"
				if has < least {
					who = strings.ToLower(name) // what one alone is refused is not all written down
				}
				conn := h.dial(who, role)
				before := len(h.audited())
				got := call(t.Context(), conn, method)
				if refused := got == codes.PermissionDenied; refused != (has < least) {
					t.Errorf("%s: %s, and the table says %s", name, got, api.RoleName(least))
				}
				if fresh := h.audited()[:len(h.audited())-before]; has < least {
					if len(fresh) != 1 || fresh[0].GetAllowed() || fresh[0].GetUser() != who ||
						!strings.Contains(fresh[0].GetAnswer(), "it takes at least "+api.RoleName(least)) {
						t.Errorf("%s was refused and the audit log has %v", name, fresh)
					}
				}
			}
		})
	}
}

func methods() []string {
	var out []string
	for _, m := range ecsv1.RunControl_ServiceDesc.Methods {
		out = append(out, m.MethodName)
	}
	for _, m := range ecsv1.RunControl_ServiceDesc.Streams {
		out = append(out, m.StreamName)
	}
	return out
}

func TestNobodyWithoutACertificateSeesAnything(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	other, err := certs.NewCA(0)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := other.Issue("alice", nil, certs.RoleAdmin, 0)
	if err != nil {
		t.Fatal(err)
	}
	wrongCA := h.issue("alice", certs.RoleAdmin).Client("control")
	wrongCA.GetClientCertificate = stranger.Client("control").GetClientCertificate
	nameless := h.issue("alice", certs.RoleAdmin).Client("control")
	nameless.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
		error) {
		return &tls.Certificate{}, nil
	}
	for name, c := range map[string]struct {
		tls *tls.Config
		why string
	}{
		"no certificate":    {nameless, "showed no certificate"},
		"another authority": {wrongCA, "of another authority"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := h.dialWith(c.tls)
			for _, method := range []string{ecsv1.RunControl_GetStatus_FullMethodName, "/grpc.health.v1.Health/Check"} {
				if got := call(t.Context(), conn, method); got != codes.Unavailable {
					t.Errorf("%s: %s", method, got)
				}
			}
			_, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
			if err == nil {
				t.Error("reflection answers")
			}
			h.awaitRefusedHandshake(c.why)
		})
	}
}

func TestHealthAndReflection(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	health := grpc_health_v1.NewHealthClient(h.dial("vera", certs.RoleViewer))
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
		grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	} {
		h.SetServing(want == grpc_health_v1.HealthCheckResponse_SERVING)
		if got, err := health.Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{Service: "ringlet.ecs.v1.RunControl"}); err != nil || got.GetStatus() != want {
			t.Errorf("health is %v, %v; want %v", got, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	reflect := func(conn *grpc.ClientConn) (*grpc_reflection_v1.ServerReflectionResponse, error) {
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
		})
		return stream.Recv()
	}
	if got, err := reflect(h.dial("vera", certs.RoleViewer)); err != nil ||
		!strings.Contains(fmt.Sprint(got), "ringlet.ecs.v1.RunControl") {
		t.Errorf("a viewer is told %v, %v", got, err)
	}
	if _, err := reflect(h.dial("n0", certs.RoleNode)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node is told %v", err)
	}
}

func TestTheManualHasTheListOfRoles(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{} // by the row of the table that says who may call them
	for _, row := range strings.Split(strings.TrimSpace(api.RolesMarkdown()), "\n")[2:] {
		_, call, _ := strings.Cut(row, " ")
		call, who, _ := strings.Cut(call, " ")
		if strings.HasPrefix(call, "`grpc.") {
			call = "`" + strings.Split(call, "/")[0][1:] + "`"
		} else {
			call = strings.Replace(call, "RunControl/", "", 1)
		}
		if !slices.Contains(calls[who], call) {
			calls[who] = append(calls[who], call)
		}
	}
	list := fmt.Sprintf("- viewer: %s\n- operator, beside these: %s\n- admin, beside these: %s\n",
		strings.Join(calls["| yes | yes | yes |"], ", "), strings.Join(calls["| – | yes | yes |"], ", "),
		strings.Join(calls["| – | – | yes |"], ", "))
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), strings.Join(strings.Fields(list), " ")) {
		t.Errorf("docs/api.md does not have this list:\n%s", list)
	}
}
