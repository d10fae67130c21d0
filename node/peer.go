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

// Bounds of a gRPC service between members. A connection belongs to one unit, or to the control, and carries a
// few streams.
const (
	maxStreams       = 128
	maxMessageBytes  = 4 << 20 // a command with a view of 4096 members has half of it
	maxHeaderBytes   = 16 << 10
	handshakeTimeout = 5 * time.Second // for a handshake of TCP, TLS and HTTP/2
	serviceName      = "node service"
)

// ServiceOptions are those of a gRPC server for members, with the keys of now at each handshake and a bound on whatever
// a caller may take. A handshake, and the answer of a caller, may take 5 s, or atLeast if that is more.
func ServiceOptions(id *certs.Identity, log *slog.Logger, atLeast time.Duration) []grpc.ServerOption {
	return append(keepaliveOptions(atLeast), grpc.Creds(id.ServerCredentials(log)),
		grpc.ConnectionTimeout(max(handshakeTimeout, atLeast)),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxHeaderListSize(maxHeaderBytes))
}

// keepaliveOptions finds out that a peer's host is gone: a process that dies ends its connections, a host that is cut
// off does not. Five seconds are little beside what a configuration grants the control, and a ping is nothing beside
// the reports. The control asks in the same way.
func keepaliveOptions(atLeast time.Duration) []grpc.ServerOption {
	const every = 5 * time.Second
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: every, Timeout: max(every, atLeast)}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: every, PermitWithoutStream: true}),
	}
}

// callerOf is who calls, by its certificate.
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

// Identify names a caller for the scheduler, wherever that lives.
func Identify(ctx context.Context) (tagnet.Caller, error) {
	who, err := callerOf(ctx)
	return tagnet.Caller{Name: who.Name, Role: string(who.Role)}, err
}

// requireControl refuses whoever is not the control. Everybody else, people too, commands through it.
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
