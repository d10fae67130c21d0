package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	"ringlet/node/certs"
	"ringlet/tagnet"
)

// Bounds of a gRPC service between members. A connection belongs to one unit or to the control, and carries a few
// streams.
const (
	maxStreams       = 128
	maxMessageBytes  = 4 << 20 // a command with a view of 4096 members takes half of it
	maxHeaderBytes   = 16 << 10
	handshakeTimeout = 5 * time.Second // for a handshake of TCP, TLS and HTTP/2
	serviceName      = "node service"
)

// ServiceOptions are the options of a gRPC server for members: it uses the present keys at each handshake, and bounds
// what a caller may use. A handshake, and an answer of a caller, may take 5 s, or atLeast if that is longer.
func ServiceOptions(id *certs.Identity, log *slog.Logger, atLeast time.Duration) []grpc.ServerOption {
	return append(keepaliveOptions(atLeast), grpc.Creds(id.ServerCredentials(log)),
		grpc.ConnectionTimeout(max(handshakeTimeout, atLeast)),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxHeaderListSize(maxHeaderBytes))
}

// keepaliveOptions lets the server notice that a peer's host is gone: a process that dies closes its connections, a
// host that is cut off does not. Five seconds are short beside control-loss, and pings are few beside reports. The
// control does the same.
func keepaliveOptions(atLeast time.Duration) []grpc.ServerOption {
	const every = 5 * time.Second
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: every, Timeout: max(every, atLeast)}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: every, PermitWithoutStream: true}),
	}
}

// callerOf is the caller, as its certificate names it.
func callerOf(ctx context.Context) (certs.Peer, error) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return certs.Peer{}, errUnknownCaller
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return certs.Peer{}, errUnknownCaller
	}
	return certs.PeerIdentity(info.State)
}

var errUnknownCaller = errors.New("the caller is not known, for its connection has no certificate: call with keys of " +
	"this cluster, as ringlet certs makes them")

// Identify returns the caller for the scheduler's access check.
func Identify(ctx context.Context) (tagnet.Caller, error) {
	who, err := callerOf(ctx)
	return tagnet.Caller{Name: who.Name, Role: string(who.Role)}, err
}

// requireControl refuses all callers but the control. People and other programs command a node through the control.
func requireControl(ctx context.Context) error {
	who, err := callerOf(ctx)
	if err != nil {
		return err
	}
	if who.Role != certs.RoleControl {
		return fmt.Errorf("%s is a %s, and a node takes commands from the control only", who.Name, who.Role)
	}
	return nil
}
