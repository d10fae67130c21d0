package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// caller is who asks.
type caller struct {
	Name    string
	Role    ecsv1.Role
	Address string // host and port it asks from
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

// roleOf is what a certificate's role may do here. The control is an admin, so that its own keys are good for its own
// API; a node has no business with the run control.
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

// leastRoleByMethod is the least role for each method. What is not in it is refused to everybody.
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

// withCaller says who asks, where it is known by other means than a certificate on a gRPC connection.
func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerOf is who asks: as withCaller said, else by the certificate of the connection. The zero Caller, with an error,
// is somebody unknown.
func callerOf(ctx context.Context) (caller, error) {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		if c.Name == unknownName {
			return c, &identityError{"nothing says who asks: open a session with the token that the control printed when it " +
				"started"}
		}
		return c, nil
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return caller{Name: unknownName}, &identityError{"nothing says who asks"}
	}
	c := caller{Name: unknownName, Address: p.Addr.String()}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return c, &identityError{"the connection is not sealed, so nothing says who asks"}
	}
	return callerByCertificate(c, info.State)
}

// callerByCertificate fills in who the certificate of a connection speaks for. A connection may outlive its
// certificate, a call may not.
func callerByCertificate(c caller, state tls.ConnectionState) (caller, error) {
	who, err := certs.PeerIdentity(state)
	if err != nil {
		return c, &identityError{fmt.Sprintf("the certificate does not say who asks: %v", err)}
	}
	if end := state.PeerCertificates[0].NotAfter; time.Now().After(end) {
		return c, &identityError{fmt.Sprintf("the certificate of %s was good until %s", who.Name, end.Format(time.RFC3339))}
	}
	c.Name, c.Role = who.Name, roleOf(who.Role)
	return c, nil
}

// unknownName is the name in the audit log of somebody who did not say who it is.
const unknownName = "unknown"
