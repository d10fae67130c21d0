package transport

import (
	"context"
	"net"
)

// A Conn carries datagrams to and from one authenticated peer. The network may lose, double or reorder datagrams, but
// not alter them. Several goroutines may call Send at once, one goroutine calls Recv, and any may call Close.
type Conn interface {
	// Peer is the name that the peer's certificate has proved.
	Peer() string
	// MaxDatagram is the largest datagram, bytes; it does not change.
	MaxDatagram() int
	// Send copies d. It may wait for space in the carrier's queue, but never for the peer to call Recv.
	Send(d []byte) error
	// Recv waits for one datagram, adds those that have already arrived, up to len(batch), and returns their number. The
	// datagrams are valid until the next call.
	Recv(batch [][]byte) (int, error)
	// Close ends the connection and sends the reason to the peer. A waiting Recv or Send returns an error. A second Close
	// does nothing.
	Close(reason string) error
}

// A directConn encrypts datagrams straight from the writer's memory, many per system call, and decrypts what arrives
// straight into its destination. It hands datagrams to a Receiver; Recv only waits for the end of the connection.
type directConn interface {
	Conn
	// Append adds a datagram to the batch and reports whether the batch is full. The datagram is the first n bytes of buf
	// and then body, which lies elsewhere, or is nil. buf has MaxDatagram bytes behind the first n, which Append may
	// overwrite. One goroutine at a time calls Append and Flush.
	Append(buf []byte, n int, body []byte) (full bool, err error)
	// Flush sends the batch.
	Flush() error
	// Start sets the Receiver of all that arrives; it is called once. The connection calls the Receiver from one goroutine
	// at a time, and not after Close has returned.
	Start(r Receiver)
}

// Sizes are what a connection requires of the link that uses it. For a size of zero the hellos decide.
type Sizes struct {
	BaseDatagram      int // bytes of a datagram that always passes, also when the path stops carrying full ones
	Credit, SeqWindow int // datagrams: the limit in flight, and how far sending may run ahead of a repair
}

// sizedConn is a connection that requires sizes of its own.
type sizedConn interface{ Sizes() Sizes }

// A Receiver gets the datagrams of a directConn: first BeginRead; for each datagram either Reserve and Commit, Reserve
// and Abort, or Receive; then EndRead. Idle follows when the socket is empty.
type Receiver interface {
	// BeginRead reports false when the link is over.
	BeginRead() bool
	// Reserve returns where to decrypt the n bytes behind a datagram's head, which is not authenticated yet; nil: into a
	// buffer of the connection, and Receive follows.
	Reserve(head []byte, n int) []byte
	// Commit says that the reserved datagram is authentic and its body in place.
	Commit()
	// Abort says that the reserved datagram is not authentic.
	Abort()
	// Receive hands over an authentic datagram without a reservation. It is valid until the next BeginRead.
	Receive(d []byte)
	EndRead()
	// Idle is called outside BeginRead and EndRead.
	Idle()
}

// A Network makes connections between nodes. A new connection begins with a hello each way.
type Network interface {
	// Addr is where peers dial.
	Addr() net.Addr
	// Dial connects to the named peer, sends our hello and returns the peer's. A *PeerRefusedError says that the peer
	// refused this node, a *HandshakeError that one side rejected the other's certificate. Other errors may be temporary:
	// dial again.
	Dial(ctx context.Context, name, addr string, hello []byte) (Conn, []byte, error)
	// Accept waits for a peer that has dialled, proved its name and sent its hello. It returns ErrClosed after Close.
	Accept(ctx context.Context) (Incoming, error)
	Close() error
}

// Incoming is a peer that has proved its name and sent its hello, and waits for the answer. The acceptor must call one
// of Answer and Refuse.
type Incoming interface {
	Peer() string
	Hello() []byte
	// MaxDatagram is the largest datagram that the connection can carry, bytes.
	MaxDatagram() int
	Answer(hello []byte) (Conn, error)
	Refuse(RefuseCode, string)
}
