package simnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"ringlet/transport"
)

// Sizes and times of the simulated carrier, like those of quic.
const (
	defaultDatagram = 1415
	baseDatagram    = 1095
	acceptQueue     = 16
	dialTimeout     = 5 * time.Second // how long a dialler waits for an answer
	idleTimeout     = 5 * time.Second // when a silent peer counts as gone
)

// Errors of the simulated carrier.
var (
	// errIdle ends a connection after idleTimeout in a partition.
	errIdle = errors.New("nothing was heard of the peer for too long")
	// errNoAnswer ends a dial that gets no answer.
	errNoAnswer = errors.New("no answer")
)

// A ClosedError says that the peer closed the connection.
type ClosedError struct{ Peer, Reason string }

func (e *ClosedError) Error() string {
	return fmt.Sprintf("%s closed the connection: %s", e.Peer, e.Reason)
}

// A Fabric joins named nodes. It has no goroutines: datagrams wait in their connection until they are due.
type Fabric struct {
	// immutable after NewFabric
	faults Faults
	seed   uint64
	start  time.Time

	mu        sync.Mutex // guards what follows
	nodes     map[string]*Network
	cuts      map[nodePair]bool
	conns     map[*conn]struct{}
	connCount uint64 // connections made so far
}

// nodePair is two node names in order.
type nodePair struct{ a, b string }

func newNodePair(a, b string) nodePair { return nodePair{min(a, b), max(a, b)} }

// NewFabric makes a fabric without nodes. Under testing/synctest make it inside the bubble.
func NewFabric(f Faults, seed uint64) *Fabric {
	return &Fabric{
		faults: f,
		seed:   seed,
		start:  time.Now(),
		nodes:  map[string]*Network{},
		cuts:   map[nodePair]bool{},
		conns:  map[*conn]struct{}{},
	}
}

func (f *Fabric) now() time.Duration { return time.Since(f.start) }

// Node adds a node. Its name is its address, and its name as a peer.
func (f *Fabric) Node(name string) (*Network, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes[name] != nil {
		return nil, fmt.Errorf("the simulated network already has a node %q", name)
	}
	n := &Network{
		fabric: f,
		name:   name,
		queue:  make(chan *incoming, acceptQueue),
		closed: make(chan struct{}),
	}
	f.nodes[name] = n
	return n, nil
}

// Partition cuts or heals the path between two nodes, in both directions. Datagrams that were sent before the cut
// arrive. A cut that lasts longer than the idle time-out ends the connections.
func (f *Fabric) Partition(a, b string, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts[newNodePair(a, b)] = cut
	for c := range f.conns {
		if newNodePair(c.self, c.peer) == newNodePair(a, b) {
			c.in.setCut(cut)
		}
	}
}

// connect makes a connection between two nodes.
func (f *Fabric) connect(a, b *Network) (atA, atB *conn, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes[a.name] != a || f.nodes[b.name] != b {
		return nil, nil, transport.ErrClosed
	}
	seed := f.seed + f.connCount<<32
	f.connCount++
	ab, ba := newPipe(f, 2*seed), newPipe(f, 2*seed+1)
	atA = &conn{
		fabric: f,
		self:   a.name,
		peer:   b.name,
		in:     ba,
		out:    ab,
	}
	atB = &conn{
		fabric: f,
		self:   b.name,
		peer:   a.name,
		in:     ab,
		out:    ba,
	}
	f.conns[atA], f.conns[atB] = struct{}{}, struct{}{}
	return atA, atB, nil
}

// remove takes an end of a connection off the fabric, and reports whether it was there.
func (f *Fabric) remove(c *conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.conns[c]; !ok {
		return false
	}
	delete(f.conns, c)
	return true
}

// Network is one node's carrier on a fabric (transport.Network).
type Network struct {
	fabric *Fabric
	name   string
	queue  chan *incoming
	closed chan struct{}
}

// Addr is where others dial.
func (n *Network) Addr() net.Addr { return &net.UnixAddr{Name: n.name, Net: "simnet"} }

// Dial connects to the named node. Names cannot be forged here: a node refuses a dial with another name.
func (n *Network) Dial(ctx context.Context, name, addr string, hello []byte) (transport.Conn, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errNoAnswer)
	defer cancel()
	to, err := n.lookUp(ctx, addr)
	if err != nil {
		return nil, nil, fmt.Errorf("dialling %s at %s: %w", name, addr, err)
	}
	if name != addr {
		return nil, nil, &transport.HandshakeError{Peer: name, Addr: addr, Cause: fmt.Errorf("the node there is %q", addr)}
	}
	in := &incoming{
		from:  n,
		to:    to,
		hello: slices.Clone(hello),
		reply: make(chan reply, 1),
	}
	select {
	case to.queue <- in:
	default:
		return nil, nil, fmt.Errorf("dialling %s at %s: %d peers already wait there", name, addr, acceptQueue)
	}
	select {
	case r := <-in.reply:
		if r.err == nil {
			return r.conn, r.hello, nil
		}
		return nil, nil, r.err
	case <-to.closed:
		err = errNoAnswer
	case <-n.closed:
		err = transport.ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if c := in.withdraw(); c != nil {
		_ = c.Close("the dialler gave up")
	}
	return nil, nil, fmt.Errorf("dialling %s at %s: %w", name, addr, err)
}

// lookUp finds the node at an address, after one round trip. A node behind a partition does not answer.
func (n *Network) lookUp(ctx context.Context, addr string) (*Network, error) {
	select {
	case <-n.closed:
		return nil, transport.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(2 * n.fabric.faults.Delay):
	}
	n.fabric.mu.Lock()
	to, cut := n.fabric.nodes[addr], n.fabric.cuts[newNodePair(n.name, addr)]
	n.fabric.mu.Unlock()
	if to != nil && !cut {
		return to, nil
	}
	select {
	case <-n.closed:
		return nil, transport.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(noAnswerTimeout):
		return nil, errNoAnswer
	}
}

// noAnswerTimeout is how long a dialler waits for a node that does not exist or cannot be reached.
const noAnswerTimeout = 100 * time.Millisecond

// Accept waits for a peer to dial.
func (n *Network) Accept(ctx context.Context) (transport.Incoming, error) {
	select {
	case <-n.closed:
		return nil, transport.ErrClosed
	default:
	}
	select {
	case in := <-n.queue:
		return in, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.closed:
		return nil, transport.ErrClosed
	}
}

// Close takes the node off the fabric and ends its connections; the peers get the reason.
func (n *Network) Close() error {
	f := n.fabric
	f.mu.Lock()
	if f.nodes[n.name] != n {
		f.mu.Unlock()
		return nil
	}
	delete(f.nodes, n.name)
	close(n.closed)
	var mine []*conn
	for c := range f.conns {
		if c.self == n.name {
			mine = append(mine, c)
		}
	}
	f.mu.Unlock()
	for _, c := range mine {
		_ = c.Close("the node is closed")
	}
	return nil
}

// incoming is a dialler that waits for an answer.
type incoming struct {
	from, to *Network
	hello    []byte
	reply    chan reply

	mu       sync.Mutex // guards answered
	answered bool       // the dialler has gone, or has got its reply
}

type reply struct {
	conn  *conn
	hello []byte
	err   error
}

func (in *incoming) Peer() string     { return in.from.name }
func (in *incoming) Hello() []byte    { return in.hello }
func (in *incoming) MaxDatagram() int { return defaultDatagram }

// Answer accepts the peer.
func (in *incoming) Answer(hello []byte) (transport.Conn, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.answered {
		return nil, fmt.Errorf("%s left before it was answered", in.Peer())
	}
	theirs, ours, err := in.from.fabric.connect(in.from, in.to)
	if err != nil {
		return nil, err
	}
	in.answered = true
	in.reply <- reply{conn: theirs, hello: slices.Clone(hello)}
	return ours, nil
}

// Refuse refuses the peer.
func (in *incoming) Refuse(code transport.RefuseCode, why string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.answered {
		in.answered = true
		in.reply <- reply{err: &transport.PeerRefusedError{Peer: in.to.name, Code: code, Reason: why}}
	}
}

// withdraw notes that the dialler waits no longer, and returns the connection if an answer has come meanwhile.
func (in *incoming) withdraw() *conn {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.answered = true
	select {
	case r := <-in.reply:
		return r.conn
	default:
		return nil
	}
}
