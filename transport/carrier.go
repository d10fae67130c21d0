package transport

import (
	"context"
	"net"
)

// A Conn carries datagrams to and from one authenticated peer. They may be lost, doubled or reordered, but not altered.
// Send may be called by several goroutines at once, Recv by one, and Close by any.
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
	// Close ends the connection; the peer learns why. A Recv or Send that waits returns an error. Closing again does
	// nothing.
	Close(reason string) error
}

// A directConn seals datagrams straight from where their bytes lie, many to a system call, and opens them straight into
// their place. What arrives goes to a Receiver; Recv only waits for the end of the connection.
type directConn interface {
	Conn
	// Append adds a datagram to the batch and reports whether the batch is full: a head, in buf, and a body that follows
	// it and lies elsewhere, or nil. buf has room for MaxDatagram bytes behind the head, which Append may use. One
	// goroutine at a time calls Append and Flush.
	Append(buf []byte, n int, body []byte) (full bool, err error)
	// Flush sends the batch.
	Flush() error
	// Start tells who takes what arrives. It is called once. The Receiver's methods are called by one goroutine at a time,
	// and not any more once Close has returned.
	Start(r Receiver)
}

// Sizes are what a connection asks of a link over it. Those that are zero are for the hellos to say.
type Sizes struct {
	BaseDatagram      int // bytes of a datagram that every path carries, where the path may stop carrying full ones
	Credit, SeqWindow int // datagrams: in flight, and how far repair may lag behind
}

// sizedConn is a connection that asks for sizes of its own.
type sizedConn interface{ Sizes() Sizes }

// A Receiver takes the datagrams of a directConn: BeginRead, then for each datagram either Reserve and Commit, Reserve
// and Abort, or Receive, then EndRead; and Idle when nothing more is at hand.
type Receiver interface {
	// BeginRead reports false when the link takes nothing any more.
	BeginRead() bool
	// Reserve says where the n bytes behind a head of a datagram, not yet known to be authentic, belong; nil: aside.
	Reserve(head []byte, n int) []byte
	// Commit says that the datagram is authentic, and its body in the place that Reserve named.
	Commit()
	// Abort says that it is not.
	Abort()
	// Receive brings an authentic datagram that was opened aside. It is valid until the next BeginRead.
	Receive(d []byte)
	EndRead()
	// Idle is called outside BeginRead and EndRead.
	Idle()
}

// A Network makes connections between nodes. A new connection begins with a hello each way.
type Network interface {
	// Addr is where peers dial.
	Addr() net.Addr
	// Dial connects to the named peer, sends our hello and returns its answer. A *PeerRefusedError says that it turned us
	// away, a *HandshakeError that one side did not believe the other's certificate. Any other error may pass: dial again.
	Dial(ctx context.Context, name, addr string, hello []byte) (Conn, []byte, error)
	// Accept waits for a peer that has dialled, proved its name and said hello. ErrClosed follows Close.
	Accept(ctx context.Context) (Incoming, error)
	Close() error
}

// Incoming is a peer that has proved its name and said hello, and waits for an answer: one of Answer and Refuse must be
// called.
type Incoming interface {
	Peer() string
	Hello() []byte
	// MaxDatagram is the largest datagram the connection will bear, bytes.
	MaxDatagram() int
	Answer(hello []byte) (Conn, error)
	Refuse(RefuseCode, string)
}
