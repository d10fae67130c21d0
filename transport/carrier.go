package transport

import (
	"context"
	"net"
)

// A Conn carries datagrams to and from one authenticated peer. They may be lost, doubled or reordered, but not altered. Send
// may be called by several goroutines at once, Recv by one, and Close by any.
type Conn interface {
	// Peer is the name the peer has proved.
	Peer() string
	// MaxDatagram is the largest datagram, bytes; it does not change.
	MaxDatagram() int
	// Send takes a copy of d. It may wait for room, but never for the peer to call Recv.
	Send(d []byte) error
	// Recv waits for one datagram, takes what else is at hand up to len(batch), and returns how many. They are valid until
	// the next call.
	Recv(batch [][]byte) (int, error)
	// Close ends the connection; the peer learns why. A Recv or Send that waits returns an error. Closing again does nothing.
	Close(reason string) error
}

// A Network makes connections between nodes. A new connection begins with a hello each way.
type Network interface {
	// Addr is where peers dial.
	Addr() net.Addr
	// Dial connects to the named peer, sends our hello and returns its answer. A *PeerRefusedError says that it turned us away,
	// a *HandshakeError that one side did not believe the other's certificate. Any other error may pass: dial again.
	Dial(ctx context.Context, name, addr string, hello []byte) (Conn, []byte, error)
	// Accept waits for a peer that has dialled, proved its name and said hello. ErrClosed follows Close.
	Accept(ctx context.Context) (Incoming, error)
	Close() error
}

// Incoming is a peer that has proved its name and said hello, and waits for an answer: one of Answer and Refuse must be called.
type Incoming interface {
	Peer() string
	Hello() []byte
	// MaxDatagram is the largest datagram the connection will bear, bytes.
	MaxDatagram() int
	Answer(hello []byte) (Conn, error)
	Refuse(RefuseCode, string)
}
