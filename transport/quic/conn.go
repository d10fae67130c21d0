package quic

import (
	"context"

	quicgo "github.com/quic-go/quic-go"
)

// conn is one QUIC connection as a carrier of datagrams.
type conn struct {
	qc   *quicgo.Conn
	name string
	max  int
	ctx  context.Context
}

func newConn(qc *quicgo.Conn, name string, packet int) *conn {
	return &conn{qc: qc, name: name, max: packet - overhead, ctx: context.Background()}
}

func (c *conn) Peer() string     { return c.name }
func (c *conn) MaxDatagram() int { return c.max }

// Send queues the datagram in quic-go, which copies it and blocks while 32 are waiting.
func (c *conn) Send(d []byte) error { return c.qc.SendDatagram(d) }

// Recv waits for one datagram and then takes those that wait already.
func (c *conn) Recv(batch [][]byte) (int, error) {
	d, err := c.qc.ReceiveDatagram(c.ctx)
	if err != nil {
		return 0, err
	}
	batch[0] = d
	n := 1
	for n < len(batch) {
		d, _ = c.qc.ReceiveDatagram(noWait{}) // an error comes again with the next call that waits
		if d == nil {
			break
		}
		batch[n] = d
		n++
	}
	return n, nil
}

func (c *conn) Close(reason string) error { return c.qc.CloseWithError(0, reason) }

// noWait is a context for taking a datagram only if one is there: it is done from the start, yet has no error, so that
// ReceiveDatagram looks into its queue before it gives up. A test holds that quic-go goes on to behave so.
type noWait struct{ context.Context }

var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (noWait) Done() <-chan struct{} { return over }
func (noWait) Err() error            { return nil }
func (noWait) Value(any) any         { return nil }
