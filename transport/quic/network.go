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

// protocolName is the protocol that both ends must name in the TLS handshake (ALPN).
const protocolName = "ringlet/1"

// Tuned values.
const (
	// connIDLen makes a DATAGRAM frame of quic-go's largest size fill a packet to the byte: quic-go reserves connection
	// IDs of 20 bytes and nothing else, but the packet also has a packet number (2) and a frame type (1). Only packets of
	// exactly full size leave together in one GSO call.
	connIDLen = 17
	// fullPacketOverhead is the bytes of a full packet beside the datagram: type 1, connection ID 17, packet number 2,
	// frame type 1, tag 16.
	fullPacketOverhead = 1 + connIDLen + 2 + 1 + 16
	// maxPacketSize is quic-go's largest UDP payload, bytes.
	maxPacketSize = 1452
	// defaultIdleTimeout is when a silent peer counts as gone.
	defaultIdleTimeout = 5 * time.Second
	// socketBuf is the requested size of the socket's buffer for each direction, bytes: more than 5000 full packets, where
	// 100 are in flight per peer.
	socketBuf = 8 << 20
	// streamBuf is a stream's flow-control window, bytes: four times what the link's credits allow in flight there, so
	// that Send waits only for a peer that has not read for many time-outs, though it is alive.
	streamBuf = 4 * streamCredit * streamDatagram
)

// Config of a Network.
type Config struct {
	Addr      string      // UDP address to bind, port 0 for any
	ServerTLS *tls.Config // certificate of this node; demands one of the peer
	// ClientTLS returns the configuration for dialling the named peer.
	ClientTLS func(peer string) *tls.Config
	// PeerName reads the peer's name from its verified certificate.
	PeerName func(tls.ConnectionState) (string, error)
	// PacketSize is the UDP payload of a full packet, bytes. Zero means the MTU of Addr's interface, and at most 1452.
	PacketSize int
	// NoGRO reads one packet per system call, as with a kernel without UDP_GRO.
	NoGRO bool
	// Spin is how long the reader polls for packets before it sleeps. It helps where a processor is free for it, and slows
	// other work down where none is. Zero means no polling.
	Spin time.Duration
	// GoroutinePerLink has each link of the carrier quic decrypt its packets in a goroutine of its own. A process with
	// more than two processors always does so.
	GoroutinePerLink bool
	// Timestamps has the kernel note when packets are sent and received, for AppendSendTimes and LastReceiveTime.
	Timestamps bool
	// IdleTimeout is when a silent peer counts as gone, in its handshake, before its hello and later; later as
	// SetIdleTimeout says. Zero means 5 s.
	IdleTimeout time.Duration
	Log         *slog.Logger // nil: no log
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
	greeted    chan *incoming // peers that have sent their hello
	handshakes *handshakeLimiter
	ctx        context.Context // done when the network is closed
	stop       context.CancelCauseFunc

	idleTimeout atomic.Int64 // in ns, of connections

	sessions sessions // of the carrier quic

	mu    sync.Mutex // guards conns
	conns map[*liveness]struct{}

	wg        sync.WaitGroup
	closeOnce sync.Once
	closeErr  error // set by closeOnce
}

// Stats counts what a Network did, and which peers it refused.
type Stats struct {
	SocketStats
	HandshakeStats
	Bulk BulkStats `count:"quic_"`
	Path PathStats `count:"way_"`

	KernelDrops uint64 `help:"packets that the kernel dropped as they came, since this process had not read earlier ones"`
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

// loadCounters copies counters that other goroutines increment atomically.
func loadCounters[T SocketStats | HandshakeStats | BulkStats | PathStats](count *T) (out T) {
	n := unsafe.Sizeof(out) / unsafe.Sizeof(uint64(0))
	from := unsafe.Slice((*uint64)(unsafe.Pointer(count)), n)
	to := unsafe.Slice((*uint64)(unsafe.Pointer(&out)), n)
	for i := range to {
		to[i] = atomic.LoadUint64(&from[i])
	}
	return out
}

// increment adds one to a counter.
func increment(counter *uint64) { atomic.AddUint64(counter, 1) }

func (c *Config) setDefaults() {
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Listen binds the socket and begins to accept connections; they wait for Accept.
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
	n.SetIdleTimeout(cfg.IdleTimeout)
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

// plainIDs makes connection IDs for quic-go that differ from those of all sessions of package express.
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

// maxUDPPayload is the largest UDP payload of an interface with the given MTU, to or from an address: the MTU less the
// headers of IPv4 or IPv6, and of UDP, and at most most bytes.
func maxUDPPayload(mtu int, ip net.IP, most int) int {
	headers := 28
	if ip.To4() == nil {
		headers = 48
	}
	return min(most, mtu-headers)
}

// interfaceMTU is the MTU of the interface with the given address; for the unspecified address, the smallest of all
// interfaces that are up. If none is found, it is Ethernet's.
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

// SetIdleTimeout sets when the silent peer of a connection counts as gone, also of those that there are. Only
// connections that are dialled later ask for answers as often as that needs; one end that asks is enough.
func (n *Network) SetIdleTimeout(d time.Duration) { n.idleTimeout.Store(int64(d)) }

func (n *Network) currentIdleTimeout() time.Duration { return time.Duration(n.idleTimeout.Load()) }

// quicConfig is quic-go's configuration. liveness, not quic-go, decides whether a peer is alive.
func (n *Network) quicConfig() *quicgo.Config {
	return &quicgo.Config{
		EnableDatagrams:                true,
		InitialPacketSize:              uint16(n.packetSize),
		DisablePathMTUDiscovery:        true,
		MaxIdleTimeout:                 quicIdleTimeout,
		KeepAlivePeriod:                n.currentIdleTimeout() / silenceChecks,
		HandshakeIdleTimeout:           n.cfg.IdleTimeout,
		MaxIncomingStreams:             1,
		MaxIncomingUniStreams:          numStreams,
		InitialStreamReceiveWindow:     streamBuf,
		MaxStreamReceiveWindow:         streamBuf,
		InitialConnectionReceiveWindow: 2 * streamBuf,
		MaxConnectionReceiveWindow:     2 * streamBuf,
	}
}

// Addr returns the socket's address.
func (n *Network) Addr() net.Addr { return n.sock.LocalAddr() }

// Close ends all connections and tells the peers, closes the socket and waits for the goroutines. A second Close does
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

// withProtocol makes a TLS configuration name the protocol, also those that GetConfigForClient returns.
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

// track registers a connection for Close, because quic-go sends no word to peers when the socket closes, and starts its
// liveness check. It returns nil if the network is closed.
func (n *Network) track(qc *quicgo.Conn) *liveness {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		return nil
	}
	l := &liveness{qc: qc}
	n.conns[l] = struct{}{}
	n.wg.Go(func() {
		l.closeWhenSilent(n.currentIdleTimeout)
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

// exchangeHellos sends our hello on a new stream and reads the peer's.
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
		// The peer's reason for closing says more than the failed read.
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

// maxHello is the longest message of the hellos and of the upgrade, bytes.
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
