package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// auditedMethods are the methods whose every call goes to the audit log. Of other methods only refusals do.
var auditedMethods = map[string]bool{
	ecsv1.RunControl_Command_FullMethodName:        true,
	ecsv1.RunControl_TakeControl_FullMethodName:    true,
	ecsv1.RunControl_ReleaseControl_FullMethodName: true,
	newTokenMethod: true,
}

// interceptUnary is the interceptor for calls with one answer.
func (s *Server) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (resp any, err error) {
	caller, err := callerOf(ctx)
	if err == nil {
		err = permit(caller, info.FullMethod)
	}
	if err == nil && auditedMethods[info.FullMethod] && !isStop(req) {
		err = s.audit.checkWritable()
	}
	if err == nil {
		func() {
			defer s.recoverPanic(info.FullMethod, &err)
			resp, err = handler(withCaller(ctx, caller), req)
		}()
	}
	s.auditCall(caller, info.FullMethod, req, err)
	return resp, asStatus(err)
}

// isStop says whether a call stops a run, or gives it up. Stop is the only audited call that goes on if the audit log
// cannot be written.
func isStop(req any) bool {
	c, ok := req.(*ecsv1.CommandRequest)
	return ok && c.GetCommand() == "stop"
}

// interceptStream is the interceptor for calls with a stream of answers.
func (s *Server) interceptStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	caller, err := callerOf(ss.Context())
	if err == nil {
		err = permit(caller, info.FullMethod)
	}
	if err != nil {
		s.auditCall(caller, info.FullMethod, nil, err)
		return asStatus(err)
	}
	if err := s.limiter.openStream(caller.Name); err != nil {
		return asStatus(err)
	}
	out := &callerStream{ServerStream: ss, s: s, caller: caller}
	defer func() { s.limiter.closeStream(caller.Name, out.heldBytes) }()
	ctx, cancel := context.WithCancel(withCaller(ss.Context(), caller))
	defer cancel()
	defer context.AfterFunc(s.servingContext, cancel)()
	defer s.recoverPanic(info.FullMethod, &err)
	out.ctx = ctx
	err = handler(srv, out)
	if out.readerStalled {
		err = stalledError(s.stallTimeout)
		s.logStalled(caller, info.FullMethod)
	}
	if s.servingContext.Err() != nil {
		return asStatus(status.Error(codes.Unavailable, "the run control ends"))
	}
	return asStatus(err)
}

// callerStream is a stream with the caller in its context. Each message counts in the stream limiter, and must be sent
// within the stall time-out.
type callerStream struct {
	grpc.ServerStream
	ctx           context.Context
	s             *Server
	caller        caller
	heldBytes     int64 // bytes of the last message
	readerStalled bool  // a send failed by the stall time-out
}

func (c *callerStream) Context() context.Context { return c.ctx }

// SendMsg waits for room in the stream limiter and sends a message. One goroutine calls it.
func (c *callerStream) SendMsg(m any) error {
	var size int64
	if of, ok := m.(proto.Message); ok {
		size = int64(proto.Size(of))
	}
	old := c.heldBytes
	c.heldBytes = 0
	if err := c.s.limiter.waitSwapBytes(c.ctx, c.caller.Name, old, size, c.s.stallTimeout); err != nil {
		return err
	}
	c.heldBytes = size
	over := time.AfterFunc(c.s.stallTimeout, func() { c.s.conns.closeConn(c.caller.Address) })
	err := c.ServerStream.SendMsg(m)
	late := !over.Stop() || errors.Is(err, os.ErrDeadlineExceeded) // the latter of HTTP
	c.readerStalled = late && err != nil
	return err
}

// logStalled logs that a stream ended since its reader stalled, at a bounded rate.
func (s *Server) logStalled(c caller, method string) {
	if unreported, yes := s.logLimiter.Allow(c.Name, s.now()); yes {
		s.log.Warn("a stream was ended: its client did not read", "user", c.Name, "remote", c.Address,
			"method", shortName(method), "after", s.stallTimeout, "unreported", unreported)
	}
}

// auditCall writes a call to the audit log, if its method is audited or the call was refused for its caller.
func (s *Server) auditCall(c caller, method string, req any, err error) {
	action, arguments := shortName(method), ""
	switch r := req.(type) {
	case *ecsv1.CommandRequest:
		action, arguments = "command "+quoteWord(r.GetCommand()), formatArguments(r.GetArguments())
		if node := r.GetArguments()["node"]; node != "" {
			action += " " + quoteWord(node)
		}
		if method == ecsv1.RunControl_Plan_FullMethodName {
			action = "plan " + quoteWord(r.GetCommand())
		}
	case *ecsv1.TakeControlRequest:
		action = "take control"
		if r.GetForce() {
			action += " by force"
		}
	case *ecsv1.ReleaseControlRequest:
		action = "release control"
	}
	code := status.Code(asStatus(err))
	if !auditedMethods[method] && code != codes.PermissionDenied && code != codes.Unauthenticated {
		return
	}
	write := s.audit.write
	if isRefusal(err) {
		write = s.audit.writeRefusal
	}
	if fail := write(c, action, arguments, err); fail != nil && c.Name != unknownName {
		s.addAlarm(fmt.Sprintf("%s of %s was answered and could not be written to the audit log", action, c.Name))
	}
}

// recoverPanic turns a panic of a handler into an error and an event, so that a bug in one call does not end the
// control of all users.
func (s *Server) recoverPanic(method string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	s.log.Error("a handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	s.addAlarm(fmt.Sprintf("the call %s ended in a bug of the control: %v", shortName(method), p))
	*err = newStatus(codes.Internal, fmt.Errorf("%s ended in a bug of the control; its log has the details",
		shortName(method)), reasonInternal, nil)
}

// addAlarm publishes a fault of the run control itself.
func (s *Server) addAlarm(text string) {
	s.journal.Add(&ecsv1.Event{
		At:        timestamppb.New(s.now()),
		Kind:      "alarm",
		Component: "control",
		Text:      text,
		Severity:  ecsv1.Severity_SEVERITY_ERROR,
	})
}

// caller is the user of a call.
type caller struct {
	Name    string
	Role    ecsv1.Role
	Address string // host and port of the client
}

// Least roles for Server.Handle.
const (
	Everybody = ecsv1.Role_ROLE_UNSPECIFIED
	Viewer    = ecsv1.Role_ROLE_VIEWER
	Admin     = ecsv1.Role_ROLE_ADMIN
)

// roleName is the caller's role as its certificate spells it.
func (c caller) roleName() string { return roleName(c.Role) }

// roleName is a role as certificates spell it.
func roleName(r ecsv1.Role) string {
	if r == ecsv1.Role_ROLE_UNSPECIFIED {
		return "none"
	}
	return strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_"))
}

// roleOf is the role in the API for the role in a certificate. The control is an admin of its own API; a node has no
// role in it.
func roleOf(r certs.Role) ecsv1.Role {
	switch r {
	case certs.RoleViewer:
		return ecsv1.Role_ROLE_VIEWER
	case certs.RoleOperator:
		return ecsv1.Role_ROLE_OPERATOR
	case certs.RoleAdmin, certs.RoleControl:
		return ecsv1.Role_ROLE_ADMIN
	case certs.RoleNode:
	}
	return ecsv1.Role_ROLE_UNSPECIFIED
}

// leastRoleByMethod is the least role for each method. A method that is not in it is refused to all callers.
var leastRoleByMethod = map[string]ecsv1.Role{
	ecsv1.RunControl_GetStatus_FullMethodName:          ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_DescribeFSM_FullMethodName:        ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_Plan_FullMethodName:               ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_Command_FullMethodName:            ecsv1.Role_ROLE_OPERATOR,
	ecsv1.RunControl_TakeControl_FullMethodName:        ecsv1.Role_ROLE_OPERATOR,
	ecsv1.RunControl_ReleaseControl_FullMethodName:     ecsv1.Role_ROLE_OPERATOR,
	ecsv1.RunControl_Watch_FullMethodName:              ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_GetSnapshot_FullMethodName:        ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_WatchSnapshots_FullMethodName:     ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_ListRuns_FullMethodName:           ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_GetRun_FullMethodName:             ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_CheckConfiguration_FullMethodName: ecsv1.Role_ROLE_OPERATOR,
	ecsv1.RunControl_Tap_FullMethodName:                ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_Sample_FullMethodName:             ecsv1.Role_ROLE_VIEWER,
	ecsv1.RunControl_ListAudit_FullMethodName:          ecsv1.Role_ROLE_ADMIN,

	"/grpc.health.v1.Health/Check":                                   ecsv1.Role_ROLE_VIEWER,
	"/grpc.health.v1.Health/List":                                    ecsv1.Role_ROLE_VIEWER,
	"/grpc.health.v1.Health/Watch":                                   ecsv1.Role_ROLE_VIEWER,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      ecsv1.Role_ROLE_VIEWER,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": ecsv1.Role_ROLE_VIEWER,
	newTokenMethod: ecsv1.Role_ROLE_ADMIN,
}

// rolesMarkdown prints the table of roles, as docs/api.md shows it.
func rolesMarkdown() string {
	var b strings.Builder
	b.WriteString("| call | viewer | operator | admin |\n|---|---|---|---|\n")
	for _, method := range slices.Sorted(maps.Keys(leastRoleByMethod)) {
		b.WriteString("| `" + strings.TrimPrefix(strings.TrimPrefix(method, "/"), "ringlet.ecs.v1.") + "` |")
		for r := ecsv1.Role_ROLE_VIEWER; r <= ecsv1.Role_ROLE_ADMIN; r++ {
			if r >= leastRoleByMethod[method] {
				b.WriteString(" yes |")
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// permit says whether the caller may use the method.
func permit(c caller, method string) error {
	least, listed := leastRoleByMethod[method]
	if c.Role == ecsv1.Role_ROLE_UNSPECIFIED || c.Role < least {
		return &roleError{Caller: c, Action: "call " + shortName(method), Needs: max(least, ecsv1.Role_ROLE_VIEWER)}
	}
	if !listed {
		return status.Errorf(codes.Unimplemented, "there is no call %s", quoteShortened(method))
	}
	return nil
}

func shortName(method string) string { return method[strings.LastIndex(method, "/")+1:] }

type callerKey struct{}

// withCaller puts the caller into a context, if it is known otherwise than by the certificate of a gRPC connection.
func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerOf is the caller by withCaller, or else by the certificate of the connection. With an error, its name is
// unknownName.
func callerOf(ctx context.Context) (caller, error) {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		if c.Name == unknownName {
			return c, &identityError{"the caller is not known: open a session with the token that the control printed when it " +
				"started"}
		}
		return c, nil
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return caller{Name: unknownName}, &identityError{"the caller is not known: there is no connection"}
	}
	c := caller{Name: unknownName, Address: p.Addr.String()}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return c, &identityError{"the caller is not known: the connection has no TLS"}
	}
	return callerByCertificate(c, info.State)
}

// callerByCertificate fills in name and role by the certificate of a connection. It checks the certificate's end at
// each call, since a connection may outlive its certificate.
func callerByCertificate(c caller, state tls.ConnectionState) (caller, error) {
	who, err := certs.PeerIdentity(state)
	if err != nil {
		return c, &identityError{fmt.Sprintf("the certificate does not name the caller: %v", err)}
	}
	if end := state.PeerCertificates[0].NotAfter; time.Now().After(end) {
		return c, &identityError{fmt.Sprintf("the certificate of %s was good until %s", who.Name, end.Format(time.RFC3339))}
	}
	c.Name, c.Role = who.Name, roleOf(who.Role)
	return c, nil
}

// unknownName is the name in the audit log of a caller without an identity.
const unknownName = "unknown"
