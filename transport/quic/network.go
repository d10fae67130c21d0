package quic

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/internal/address"
	"ringlet/transport"
	"ringlet/transport/express"
)

// protocolName is what both ends must name in the TLS handshake (ALPN).
const protocolName = "ringlet/1"

// Tuned values.
const (
	// connIDLen makes a DATAGRAM frame of the largest size quic-go takes fill a packet to the byte: it reckons with
	// connection ids of 20 bytes and nothing else, and a packet number (2) and frame type (1) stand in the packet too.
	// Only packets of exactly full size leave together in one GSO call.
	connIDLen = 17
	// fullPacketOverhead is what a full packet holds beside the datagram: type 1, connection id 17, packet number 2, frame
	// type 1, tag 16.
	fullPacketOverhead = 1 + connIDLen + 2 + 1 + 16
	// maxPacketSize is the largest UDP payload quic-go makes.
	maxPacketSize = 1452
	// defaultIdleTimeout is how long a silent peer is believed to live: half of what a run may take to end after a node
	// was killed.
	defaultIdleTimeout = 5 * time.Second
	// socketBuf is asked of the kernel for each direction: more than 5000 full packets, where 100 are in flight per peer.
	socketBuf = 8 << 20
	// streamBuf is the window of flow control of a stream: four times what the link's credits let be in flight there, so
	// that only a peer which lives, but stands still for many time-outs, can make Send wait for it.
	streamBuf = 4 * streamCredit * streamDatagram
)

// Config of a Network.
type Config struct {
	Addr      string      // UDP address to bind, port 0 for any
	ServerTLS *tls.Config // certificate of this node; asks for one of the peer
	// ClientTLS makes the configuration to dial the named peer with.
	ClientTLS func(peer string) *tls.Config
	// PeerName reads the peer's name from its verified certificate.
	PeerName func(tls.ConnectionState) (string, error)
	// PacketSize is the UDP payload of a full packet, bytes. Zero means what the interface of Addr bears, at most 1452.
	PacketSize int
	// NoGRO reads one packet at a time, as where the kernel has no UDP_GRO.
	NoGRO bool
	// Spin is how long the reader looks for packets again and again before it sleeps. It is worth a processor of its own
	// where there is one, and costs the others where there is none. Zero means that it sleeps at once.
	Spin time.Duration
	// GoroutinePerLink has each link of the carrier quic open its packets in a goroutine of its own. It is so anyway where
	// the process has more than two processors.
	GoroutinePerLink bool
	// Timestamps has the kernel note when packets are sent and received: AppendSendTimes and LastReceiveTime tell. Zero
	// means that it does not.
	Timestamps bool
	// IdleTimeout is how long a silent peer is believed to live at most, in its handshake, before its hello and later.
	// Zero means 5 s.
	IdleTimeout time.Duration
	Log         *slog.Logger // nil logs nothing
}

// Network is one UDP socket with all the QUIC connections of a node.
type Network struct {
	// immutable after Listen
	cfg        Config
	log        *slog.Logger
	sock       *socket
	tr         *quicgo.Transport
	ln         *quicgo.Listener
	packetSize int
	greeted    chan *incoming    // peers that have said hello
	handshakes *handshakeLimiter // through which they come
	ctx        context.Context   // over when the network is closed
	stop       context.CancelCauseFunc

	sessions sessions // of the carrier quic

	mu    sync.Mutex // guards conns
	conns map[*liveness]struct{}

	wg        sync.WaitGroup
	closeOnce sync.Once
	closeErr  error // written by closing
}

// Stats counts what a Network did and whom it did not let in.
type Stats struct {
	SocketStats
	HandshakeStats
	Bulk BulkStats `count:"quic_"`
	Path PathStats `count:"way_"`

	KernelDrops uint64 `help:"packets that came and that the kernel threw away, since nobody had read those before"`
}

// Stats returns the counters.
func (n *Network) Stats() Stats {
	return Stats{
		SocketStats:    loadCounters(&n.sock.stats),
		HandshakeStats: loadCounters(&n.handshakes.stats),
		Bulk:           loadCounters(&n.sessions.stats),
		Path:           loadCounters(&n.sock.paths.stats),
		KernelDrops:    n.sock.kernelDrops(),
	}
}

// loadCounters copies counters, each of which is added to atomically.
func loadCounters[T SocketStats | HandshakeStats | BulkStats | PathStats](count *T) (out T) {
	n := unsafe.Sizeof(out) / unsafe.Sizeof(uint64(0))
	from := unsafe.Slice((*uint64)(unsafe.Pointer(count)), n)
	to := unsafe.Slice((*uint64)(unsafe.Pointer(&out)), n)
	for i := range to {
		to[i] = atomic.LoadUint64(&from[i])
	}
	return out
}

// increment counts one.
func increment(counter *uint64) { atomic.AddUint64(counter, 1) }

func (c *Config) setDefaults() {
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Listen binds the socket and begins to take connections; they wait for Accept.
func Listen(cfg Config) (*Network, error) {
	cfg.setDefaults()
	udp, err := address.ListenUDP(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("cannot bind data address %q: %w", cfg.Addr, err)
	}
	n := &Network{
		cfg:        cfg,
		log:        cfg.Log,
		packetSize: cfg.PacketSize,
		greeted:    make(chan *incoming),
		conns:      map[*liveness]struct{}{},
		handshakes: newHandshakeLimiter(cfg.Log),
	}
	n.sessions.inline = newReceiveScratch()
	if cfg.GoroutinePerLink || runtime.GOMAXPROCS(0) > 2 {
		n.sessions.pool = newPool()
	}
	n.sock = newSocket(udp, !cfg.NoGRO, cfg.Spin, n.sessions.dispatch, n.sessions.notifyIdle)
	if cfg.Timestamps {
		if err := n.sock.enableTimestamps(allTimestampFlags); err != nil {
			return nil, errors.Join(fmt.Errorf("the kernel gives no times of packets: %w", err), udp.Close())
		}
		n.sock.timestamps.enabled = true
	}
	n.ctx, n.stop = context.WithCancelCause(context.Background())
	if n.packetSize == 0 {
		ip := udp.LocalAddr().(*net.UDPAddr).IP
		n.packetSize = maxUDPPayload(min(1500, interfaceMTU(ip)), ip, maxPacketSize)
	}
	n.tr = &quicgo.Transport{
		Conn:                  n.sock,
		ConnectionIDGenerator: plainIDs{},
		ConnContext:           n.admitHandshake,
		VerifySourceAddress:   n.handshakes.mustVerifyAddress,
	}
	server := withProtocol(cfg.ServerTLS)
	if n.ln, err = n.tr.Listen(server, n.quicConfig()); err != nil {
		n.stop(transport.ErrClosed)
		_ = n.tr.Close()
		_ = udp.Close()
		return nil, fmt.Errorf("cannot listen on data address %q: %w", cfg.Addr, err)
	}
	n.wg.Go(n.acceptLoop)
	return n, nil
}

// plainIDs makes connection IDs for quic-go, which no session of package express has.
type plainIDs struct{}

func (plainIDs) ConnectionIDLen() int { return connIDLen }

func (plainIDs) GenerateConnectionID() (quicgo.ConnectionID, error) {
	var id [connIDLen]byte
	if _, err := rand.Read(id[:]); err != nil {
		return quicgo.ConnectionID{}, err
	}
	express.ClearSessionBit(id[:])
	return quicgo.ConnectionIDFromBytes(id[:]), nil
}

// maxUDPPayload is how much of a UDP packet an interface bears to or from an address, at most so much: its MTU, less
// the headers of IPv4 or IPv6, and of UDP.
func maxUDPPayload(mtu int, ip net.IP, most int) int {
	headers := 28
	if ip.To4() == nil {
		headers = 48
	}
	return min(most, mtu-headers)
}

// interfaceMTU is that of the interface with the given address; for the unspecified address, the smallest of all that
// are up. Where nothing is known it is that of Ethernet.
func interfaceMTU(ip net.IP) int {
	const ethernet = 1500
	ifaces, err := net.Interfaces()
	if err != nil {
		return ethernet
	}
	mtu := 0
	for _, i := range ifaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && (ip.IsUnspecified() || n.IP.Equal(ip)) && (mtu == 0 || i.MTU < mtu) {
				mtu = i.MTU
			}
		}
	}
	if mtu == 0 {
		return ethernet
	}
	return mtu
}

// quicConfig is what quic-go is told. Whether a peer lives is for liveness to say.
func (n *Network) quicConfig() *quicgo.Config {
	return &quicgo.Config{
		EnableDatagrams:                true,
		InitialPacketSize:              uint16(n.packetSize),
		DisablePathMTUDiscovery:        true,
		MaxIdleTimeout:                 quicIdleTimeout,
		KeepAlivePeriod:                n.cfg.IdleTimeout / silenceChecks,
		HandshakeIdleTimeout:           n.cfg.IdleTimeout,
		MaxIncomingStreams:             1,
		MaxIncomingUniStreams:          numStreams,
		InitialStreamReceiveWindow:     streamBuf,
		MaxStreamReceiveWindow:         streamBuf,
		InitialConnectionReceiveWindow: 2 * streamBuf,
		MaxConnectionReceiveWindow:     2 * streamBuf,
	}
}

// Addr is the socket's address.
func (n *Network) Addr() net.Addr { return n.sock.LocalAddr() }

// Close ends all connections, which the peers learn, closes the socket and waits for the goroutines. Closing again does
// nothing.
func (n *Network) Close() error {
	n.stop(transport.ErrClosed)
	n.closeOnce.Do(func() {
		n.mu.Lock()
		conns := n.conns
		n.conns = nil
		n.mu.Unlock()
		for l := range conns {
			_ = l.qc.CloseWithError(0, "the node is closed")
		}
		n.closeErr = errors.Join(n.ln.Close(), n.tr.Close(), n.sock.Close())
		n.wg.Wait()
		n.handshakes.close()
	})
	return n.closeErr
}

// withProtocol makes a configuration name the protocol, also where each handshake has a configuration of its own.
func withProtocol(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.NextProtos = []string{protocolName}
	if of := c.GetConfigForClient; of != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := of(hello)
			if now != nil {
				now.NextProtos = []string{protocolName}
			}
			return now, err
		}
	}
	return c
}

// track notes a connection for Close, because quic-go ends connections silently with their socket, and looks whether
// its peer lives. A closed network keeps none: nil.
func (n *Network) track(qc *quicgo.Conn) *liveness {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		return nil
	}
	l := &liveness{qc: qc}
	n.conns[l] = struct{}{}
	n.wg.Go(func() {
		l.closeWhenSilent(n.cfg.IdleTimeout)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.conns, l)
	})
	return l
}

// Dial connects to a peer and exchanges hellos on the first stream.
func (n *Network) Dial(ctx context.Context, name, addr string, hello []byte) (transport.Conn, []byte, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("data address %q of %s: %w", addr, name, err)
	}
	client := withProtocol(n.cfg.ClientTLS(name))
	qc, err := n.tr.Dial(ctx, to, client, n.quicConfig())
	if err != nil {
		return nil, nil, dialError(name, addr, err)
	}
	l := n.track(qc)
	if l == nil {
		_ = qc.CloseWithError(0, "the node is closed")
		return nil, nil, transport.ErrClosed
	}
	n.closeAtCertificateExpiry(qc, name)
	st, answer, err := exchangeHellos(ctx, qc, hello)
	if err != nil {
		_ = qc.CloseWithError(0, "no hello")
		return nil, nil, dialError(name, addr, err)
	}
	return newConn(n, l, st, name), answer, nil
}

// exchangeHellos says hello on a new stream and reads the answer.
func exchangeHellos(ctx context.Context, qc *quicgo.Conn, hello []byte) (*quicgo.Stream, []byte, error) {
	st, err := qc.OpenStreamSync(ctx)
	if err != nil {
		return nil, nil, err
	}
	if d, ok := ctx.Deadline(); ok {
		_ = st.SetDeadline(d)
	}
	stop := context.AfterFunc(ctx, func() { _ = st.SetDeadline(time.Now()) })
	defer stop()
	if err := putMessage(st, hello); err != nil {
		return nil, nil, err
	}
	answer, err := getMessage(st)
	if err != nil {
		// The reason why the peer closed says more than the failed read.
		select {
		case <-qc.Context().Done():
			return nil, nil, context.Cause(qc.Context())
		default:
		}
		return nil, nil, err
	}
	_ = st.SetDeadline(time.Time{})
	return st, answer, nil
}

// maxHello bounds what a peer may say before it is known.
const maxHello = 1024

func putMessage(w io.Writer, p []byte) error {
	_, err := w.Write(append(binary.LittleEndian.AppendUint16(nil, uint16(len(p))), p...))
	return err
}

func getMessage(r io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint16(size[:])
	if n > maxHello {
		return nil, fmt.Errorf("the hello is %d bytes long, more than %d", n, maxHello)
	}
	p := make([]byte, n)
	_, err := io.ReadFull(r, p)
	return p, err
}
