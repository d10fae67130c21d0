package quic

// The way of a peer that dials:
//
//	1 handshake  (parallel, quic-go)           mutual TLS, as many at once as handshakeLimiter admits; a failed
//	                                           handshake is counted and logged
//	2 acceptLoop (sequential)                  accepts complete connections
//	3 greet      (parallel, at most maxGreeters)  reads the name and the hello; a silent peer holds up no other
//	4 Accept     (sequential, the caller)      answers or refuses

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/transport"
)

// maxGreeters is how many peers may send their hello, or wait for Accept, at once. quic-go holds 32 more connections.
const maxGreeters = 16

// handshake belongs to a connection from its first packet on.
type handshake struct {
	completed atomic.Bool
	release   func() // frees its place among the half-open handshakes, once
}

type handshakeContextKey struct{}

// admitHandshake lets a dialling peer begin its handshake if the limiter admits it. quic-go does not report a failed
// handshake; so when the connection's context ends before the handshake was complete, recordFailure counts it.
func (n *Network) admitHandshake(ctx context.Context, who *quicgo.ClientInfo) (context.Context, error) {
	leave, err := n.handshakes.admit(who.RemoteAddr, who.AddrVerified)
	if err != nil {
		return nil, err
	}
	h := &handshake{release: sync.OnceFunc(leave)}
	ctx = context.WithValue(ctx, handshakeContextKey{}, h)
	context.AfterFunc(ctx, func() {
		h.release()
		err := context.Cause(ctx)
		var app *quicgo.ApplicationError // only peers with a complete handshake send one
		if h.completed.Load() || n.ctx.Err() != nil || errors.As(err, &app) {
			return
		}
		n.handshakes.recordFailure(who.RemoteAddr, err)
	})
	return ctx, nil
}

// acceptLoop accepts connections until the network is closed.
func (n *Network) acceptLoop() {
	busy := make(chan struct{}, maxGreeters)
	for {
		select {
		case busy <- struct{}{}:
		case <-n.ctx.Done():
			return
		}
		qc, err := n.ln.Accept(n.ctx)
		if err != nil {
			n.stop(fmt.Errorf("the listener has ended: %w", err))
			return
		}
		if h, ok := qc.Context().Value(handshakeContextKey{}).(*handshake); ok {
			h.completed.Store(true)
			h.release()
		}
		l := n.track(qc)
		if l == nil {
			_ = qc.CloseWithError(0, "the node is closed")
			return
		}
		n.wg.Go(func() {
			defer func() { <-busy }()
			n.serveIncoming(l)
		})
	}
}

// serveIncoming reads a peer's hello and keeps the peer until Accept takes it, it goes away or the network is closed.
func (n *Network) serveIncoming(l *liveness) {
	qc := l.qc
	in, err := n.greet(l)
	if err != nil {
		if n.ctx.Err() == nil {
			increment(&n.handshakes.stats.HellosRefused)
			if unreported, yes := n.handshakes.logLimiter.Allow("hello", time.Now()); yes {
				n.log.Warn("a peer sent no valid hello", "remote", qc.RemoteAddr(), "reason", err, "unreported", unreported)
			}
		}
		_ = qc.CloseWithError(quicgo.ApplicationErrorCode(transport.RefuseHello), err.Error())
		return
	}
	n.closeAtCertificateExpiry(qc, in.name)
	select {
	case n.greeted <- in:
	case <-qc.Context().Done():
	case <-n.ctx.Done():
	}
}

// Accept waits for a peer that has proved its name and sent its hello.
func (n *Network) Accept(ctx context.Context) (transport.Incoming, error) {
	select {
	case in := <-n.greeted:
		return in, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.ctx.Done():
		return nil, context.Cause(n.ctx)
	}
}

// greet reads the peer's name from its certificate, and its hello.
func (n *Network) greet(l *liveness) (*incoming, error) {
	qc := l.qc
	name, err := n.cfg.PeerName(qc.ConnectionState().TLS)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.IdleTimeout)
	defer cancel()
	st, err := qc.AcceptStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s sent no hello: %w", name, translateError(err))
	}
	_ = st.SetReadDeadline(time.Now().Add(n.cfg.IdleTimeout))
	defer context.AfterFunc(n.ctx, func() { _ = st.SetReadDeadline(time.Now()) })()
	hello, err := getMessage(st)
	if err != nil {
		return nil, fmt.Errorf("hello of %s: %w", name, translateError(err))
	}
	return &incoming{
		net:      n,
		liveness: l,
		st:       st,
		name:     name,
		hello:    hello,
	}, nil
}

// incoming is a peer that waits for the answer to its hello.
type incoming struct {
	net *Network
	*liveness
	st    *quicgo.Stream
	name  string
	hello []byte
}

func (in *incoming) Peer() string     { return in.name }
func (in *incoming) Hello() []byte    { return in.hello }
func (in *incoming) MaxDatagram() int { return in.net.packetSize - fullPacketOverhead }

func (in *incoming) Answer(hello []byte) (transport.Conn, error) {
	_ = in.st.SetWriteDeadline(time.Now().Add(in.net.cfg.IdleTimeout))
	if err := putMessage(in.st, hello); err != nil {
		_ = in.qc.CloseWithError(0, "the answer could not be sent")
		return nil, fmt.Errorf("answering %s: %w", in.name, translateError(err))
	}
	_ = in.st.SetWriteDeadline(time.Time{})
	return newConn(in.net, in.liveness, in.st, in.name), nil
}

func (in *incoming) Refuse(code transport.RefuseCode, why string) {
	_ = in.qc.CloseWithError(quicgo.ApplicationErrorCode(code), why)
}
