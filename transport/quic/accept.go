package quic

import (
	"context"
	"errors"
	"fmt"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/transport"
)

// helloTimeout is how long a peer that has connected may take to say hello.
const helloTimeout = 5 * time.Second

// Accept waits for a peer that has proved its name and said hello. Peers that fail to are turned away here.
func (n *Network) Accept(ctx context.Context) (transport.Incoming, error) {
	for {
		qc, err := n.ln.Accept(ctx)
		if errors.Is(err, quicgo.ErrServerClosed) || errors.Is(err, quicgo.ErrTransportClosed) {
			return nil, transport.ErrClosed
		}
		if err != nil {
			return nil, err
		}
		if in, err := n.greet(ctx, qc); err == nil {
			return in, nil
		}
		_ = qc.CloseWithError(quicgo.ApplicationErrorCode(transport.RefuseHello), "no hello")
	}
}

// greet reads the peer's name and hello.
func (n *Network) greet(ctx context.Context, qc *quicgo.Conn) (*incoming, error) {
	name, err := n.cfg.Name(qc.ConnectionState().TLS)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	st, err := qc.AcceptStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s said no hello: %w", name, err)
	}
	_ = st.SetDeadline(time.Now().Add(helloTimeout))
	hello, err := getMessage(st)
	if err != nil {
		return nil, fmt.Errorf("hello of %s: %w", name, err)
	}
	return &incoming{net: n, qc: qc, st: st, name: name, hello: hello}, nil
}

// incoming is a peer that waits for an answer.
type incoming struct {
	net   *Network
	qc    *quicgo.Conn
	st    *quicgo.Stream
	name  string
	hello []byte
}

func (in *incoming) Peer() string     { return in.name }
func (in *incoming) Hello() []byte    { return in.hello }
func (in *incoming) MaxDatagram() int { return in.net.packet - overhead }

func (in *incoming) Answer(hello []byte) (transport.Conn, error) {
	err := putMessage(in.st, hello)
	if err == nil {
		err = in.st.Close()
	}
	if err != nil {
		_ = in.qc.CloseWithError(0, "the answer could not be sent")
		return nil, fmt.Errorf("answering %s: %w", in.name, err)
	}
	return newConn(in.qc, in.name, in.net.packet), nil
}

func (in *incoming) Refuse(code transport.RefuseCode, why string) {
	_ = in.qc.CloseWithError(quicgo.ApplicationErrorCode(code), why)
}
