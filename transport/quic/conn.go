package quic

import (
	"context"
	"fmt"
	"net"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/transport"
)

// conn is one QUIC connection, which carries datagrams.
type conn struct {
	*liveness
	name        string
	maxDatagram int
	ctx         context.Context
	net         *Network
	st          *quicgo.Stream // stream of the hellos; Upgrade uses it further
}

func newConn(n *Network, l *liveness, st *quicgo.Stream, name string) *conn {
	return &conn{
		liveness:    l,
		name:        name,
		maxDatagram: n.packetSize - fullPacketOverhead,
		ctx:         context.Background(),
		net:         n,
		st:          st,
	}
}

// Upgrade turns the connection into another carrier.
func (c *conn) Upgrade(ctx context.Context, u transport.Upgrade) (transport.Conn, error) {
	if u.Carrier == transport.CarrierQUIC {
		e, err := c.upgradeExpress(ctx, u)
		return e, translateError(err)
	}
	if err := c.watchPath(u.Dialler); err != nil { // of the path that quic-go's packets take
		return nil, err
	}
	switch u.Carrier {
	case transport.CarrierQUICGo:
		return c, c.st.Close()
	case transport.CarrierStream:
		s, err := upgradeStream(ctx, c)
		if err != nil {
			return nil, translateError(err) // a nil *streamConn would be an error in a Conn
		}
		return s, nil
	}
	return nil, fmt.Errorf("the carrier %v does not run over QUIC", u.Carrier)
}

// remote returns the peer's address.
func (c *conn) remote() (*net.UDPAddr, error) {
	if to, ok := c.qc.RemoteAddr().(*net.UDPAddr); ok {
		return to, nil
	}
	return nil, fmt.Errorf("the address %v of %s is no UDP address", c.qc.RemoteAddr(), c.name)
}

// export derives n bytes of key material from the TLS session, for one direction: from the dialler or to it.
func (c *conn) export(label string, fromDialler bool, n int) ([]byte, error) {
	direction := byte(0)
	if fromDialler {
		direction = 1
	}
	tls := c.qc.ConnectionState().TLS
	b, err := tls.ExportKeyingMaterial(label, []byte{direction}, n)
	if err != nil {
		return nil, fmt.Errorf("the TLS session with %s gives no keys: %w", c.name, err)
	}
	return b, nil
}

func (c *conn) Peer() string     { return c.name }
func (c *conn) MaxDatagram() int { return c.maxDatagram }

// Send queues the datagram in quic-go, which copies it and blocks while 32 are waiting.
func (c *conn) Send(d []byte) error { return translateError(c.qc.SendDatagram(d)) }

// Recv waits for one datagram and then takes those that have already arrived.
func (c *conn) Recv(batch [][]byte) (int, error) {
	d, err := c.qc.ReceiveDatagram(c.ctx)
	if err != nil {
		return 0, translateError(err)
	}
	batch[0] = d
	n := 1
	for n < len(batch) {
		d, _ = c.qc.ReceiveDatagram(doneContext{}) // the next call that waits returns the error
		if d == nil {
			break
		}
		batch[n] = d
		n++
	}
	return n, nil
}

func (c *conn) Close(reason string) error { return c.qc.CloseWithError(0, reason) }

// doneContext is a context for taking a datagram without waiting: it is done from the start but has no error, so that
// ReceiveDatagram looks into its queue before it gives up. A test checks that quic-go still behaves so.
type doneContext struct{ context.Context }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (doneContext) Done() <-chan struct{} { return closedChan }
func (doneContext) Err() error            { return nil }
func (doneContext) Value(any) any         { return nil }
