package quic

// The path to a peer, below quic-go: whether it carries full packets, and how full packets travel if it does not.
//
//	probing    1 onTimer (a timer's goroutine)    sends rounds of probes while the connection sends
//	           2 receive (the socket's reader)   the peer answers them, and the detector gets the answers
//	narrow     3 write  (quic-go's, one a peer)  packets above minPacketSize leave in halves
//	           4 receive (the socket's reader)   reassembles the halves, and quic-go gets the packet
//
// As long as no path is narrow, the check costs each send one load of a pointer.

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pathLabel is the exporter label of token and key; the context is the direction, as for express.
const pathLabel = "EXPORTER-ringlet-way-v1"

// PathStats counts what this node did about paths that carry no full packets.
type PathStats struct {
	MTUShrunk         uint64 `count:"shrunk" help:"times that full packets of QUIC were found to vanish while small ones passed"`
	MTUGrown          uint64 `count:"grown" help:"times that full packets of QUIC were found to pass again"`
	ProbesSent        uint64 `help:"probes that find this out, up to four a second for each link that sends"`
	HalvesSent        uint64 `help:"halves sent of packets that the path did not carry whole"`
	HalvesReceived    uint64 `help:"halves of packets that came"`
	HalvesLost        uint64 `help:"halves whose other half has not come; QUIC sends again what was in them"`
	HalvesMalformed   uint64 `help:"halves, probes and answers not understood; dropped"`
	HalvesUnknownLink uint64 `count:"halves_strange" help:"halves, probes and answers of no link that is up; dropped"`
	HalvesForged      uint64 `help:"halves, probes and answers not sealed by the peer, or damaged; dropped"`
}

// pathTable holds the paths of a network's connections that send packets of quic-go.
type pathTable struct {
	narrowPaths atomic.Pointer[map[netip.AddrPort]*connPath] // by address; nil: no path is narrow

	mu      sync.Mutex // guards byToken and the replacing of narrowPaths
	byToken map[uint64]*connPath

	stats PathStats // atomic
}

// connPath is the path of one connection.
type connPath struct {
	// immutable
	table            *pathTable
	remote           netip.AddrPort
	packetSize       int     // bytes of a full packet
	sendKey, recvKey pathKey // for what this end sends, and for what arrives
	bytesSent        func() uint64
	onChange         func(narrow bool)
	start            time.Time

	mu          sync.Mutex // guards the next five; its holder makes no system call that waits
	detector    blackHoleDetector
	probeSender *sender
	sentAtProbe uint64 // bytesSent at the last round
	timer       *time.Timer
	ended       bool

	sendMu       sync.Mutex // guards the next two
	halfSender   *sender
	packetNumber uint64

	reassemblies [maxReassemblies]reassembly // owned by the socket's reader
}

// watchPath looks for a black hole on the path of quic-go's packets, until the connection is over.
func (c *conn) watchPath(dialler bool) error {
	if c.net.packetSize <= minPacketSize {
		return nil // every path carries these
	}
	to, err := c.remote()
	if err != nil {
		return err
	}
	ws := &c.net.sock.paths
	w := &connPath{
		table:      ws,
		remote:     addrKey(to),
		packetSize: c.net.packetSize,
		start:      time.Now(),
	}
	if w.sendKey, err = c.pathKey(dialler); err != nil {
		return err
	}
	if w.recvKey, err = c.pathKey(!dialler); err != nil {
		return err
	}
	w.bytesSent = func() uint64 { return c.qc.ConnectionStats().BytesSent }
	w.onChange = func(narrow bool) {
		if narrow {
			c.net.log.Warn("full packets no longer arrive, so they go in halves: check whether the MTU of the path has changed",
				"peer", c.name, "remote", to, "bytes", w.packetSize)
			return
		}
		c.net.log.Info("full packets arrive again", "peer", c.name, "remote", to, "bytes", w.packetSize)
	}
	w.probeSender, w.halfSender = newSender(c.net.sock, to, maxPacketSize), newSender(c.net.sock, to, 0)
	w.probeSender.nonBlocking = true
	ws.add(w)
	context.AfterFunc(c.qc.Context(), w.end)
	return nil
}

// pathKey derives the key of one direction: from the dialler or to it.
func (c *conn) pathKey(fromDialler bool) (pathKey, error) {
	b, err := c.export(pathLabel, fromDialler, pathKeyMaterial)
	if err != nil {
		return pathKey{}, err
	}
	return newPathKey(b)
}

func addrKey(a *net.UDPAddr) netip.AddrPort {
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

func (ws *pathTable) add(w *connPath) {
	ws.mu.Lock()
	if ws.byToken == nil {
		ws.byToken = map[uint64]*connPath{}
	}
	ws.byToken[w.recvKey.token] = w
	ws.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(time.Duration(probeRoundInterval), w.onTimer)
}

// end unregisters the path.
func (w *connPath) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	w.table.mu.Lock()
	delete(w.table.byToken, w.recvKey.token)
	w.table.mu.Unlock()
	w.table.setNarrow(w, false)
}

// setNarrow notes whether a path is narrow. If several connections have one remote address, the one that found out last
// counts: the halves may carry packets of any of them.
func (ws *pathTable) setNarrow(w *connPath, narrow bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m := map[netip.AddrPort]*connPath{}
	if old := ws.narrowPaths.Load(); old != nil {
		m = maps.Clone(*old)
	}
	if narrow {
		m[w.remote] = w
	} else if m[w.remote] == w {
		delete(m, w.remote)
	}
	if len(m) == 0 {
		ws.narrowPaths.Store(nil)
		return
	}
	ws.narrowPaths.Store(&m)
}

// narrowPath returns the path to an address if it is narrow, or nil.
func (ws *pathTable) narrowPath(addr *net.UDPAddr) *connPath {
	if m := ws.narrowPaths.Load(); m != nil {
		return (*m)[addrKey(addr)]
	}
	return nil
}

// onTimer sends a round of probes if one is due, and sets the timer again.
func (w *connPath) onTimer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	now, used := w.now(), w.bytesSent()
	was := w.detector.isNarrow
	if w.detector.step(now, used-w.sentAtProbe >= uint64(w.packetSize)) {
		w.sentAtProbe = used
		w.probe(now)
	}
	w.applyChange(was)
	w.timer.Reset(w.detector.untilNextStep(now))
}

func (w *connPath) now() int64 { return int64(time.Since(w.start)) + 1 } // never 0

// applyChange acts if the detector has changed its mind; was is isNarrow before.
func (w *connPath) applyChange(was bool) {
	if w.detector.isNarrow == was {
		return
	}
	w.table.setNarrow(w, w.detector.isNarrow)
	if w.detector.isNarrow {
		increment(&w.table.stats.MTUShrunk)
	} else {
		increment(&w.table.stats.MTUGrown)
	}
	w.onChange(w.detector.isNarrow)
}

// probe sends a round: a full packet, which may be too long for this host's own interface, and then a small one.
func (w *connPath) probe(now int64) {
	for _, size := range [...]int{w.packetSize, minPacketSize} {
		b := w.probeSender.buf[:size]
		w.sendKey.seal(b, pathHeader{kind: kindProbe, length: size, number: w.detector.round}, nil)
		err := w.probeSender.write(b, size, 1)
		if err != nil && (size == minPacketSize || !errors.Is(err, syscall.EMSGSIZE)) {
			w.detector.cancelRound(now)
			return
		}
		increment(&w.table.stats.ProbesSent)
	}
}

// receive handles a half, a probe or an answer from the socket. It returns the packet that a half completes, or nil.
func (ws *pathTable) receive(b []byte) []byte {
	var h pathHeader
	if !h.parse(b) {
		increment(&ws.stats.HalvesMalformed)
		return nil
	}
	ws.mu.Lock()
	w := ws.byToken[h.token]
	ws.mu.Unlock()
	if w == nil {
		increment(&ws.stats.HalvesUnknownLink)
		return nil
	}
	if !w.recvKey.isAuthentic(b) {
		increment(&ws.stats.HalvesForged)
		return nil
	}
	switch h.kind {
	case kindProbe:
		w.answer(&h)
		return nil
	case kindAnswer:
		w.mu.Lock()
		defer w.mu.Unlock()
		was := w.detector.isNarrow
		w.detector.onAnswer(w.now(), h.number, h.length == w.packetSize)
		w.applyChange(was)
		return nil
	}
	increment(&ws.stats.HalvesReceived)
	packet, lost := reassemble(&w.reassemblies, &h, b)
	atomic.AddUint64(&ws.stats.HalvesLost, uint64(lost))
	return packet
}

// answer acknowledges a probe. If the socket's buffer is full, the answer is dropped.
func (w *connPath) answer(h *pathHeader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.probeSender.buf[:pathOverhead]
	w.sendKey.seal(b, pathHeader{kind: kindAnswer, length: h.length, number: h.number}, nil)
	_ = w.probeSender.write(b, len(b), 1)
}

// write sends packets of segment bytes; the last may be shorter. Packets that every path carries go as they are, the
// others in halves.
func (w *connPath) write(b []byte, segment int) error {
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	for len(b) > 0 {
		p := b[:min(segment, len(b))]
		b = b[len(p):]
		if len(p) <= minPacketSize {
			buf, err := w.reserve(len(p))
			if err != nil {
				return err
			}
			copy(buf, p)
			continue
		}
		w.packetNumber++
		atomic.AddUint64(&w.table.stats.HalvesSent, 2)
		step := (len(p) + 1) / 2
		for kind, half := range [...][]byte{p[:step], p[step:]} {
			h := pathHeader{kind: kindFirstHalf + byte(kind), length: len(p), number: w.packetNumber}
			buf, err := w.reserve(h.size())
			if err != nil {
				return err
			}
			w.sendKey.seal(buf, h, half)
		}
	}
	return w.halfSender.flush()
}

// reserve returns space for a packet in the batch. A packet of another size than those in it begins the next batch.
func (w *connPath) reserve(size int) ([]byte, error) {
	o := w.halfSender
	if len(o.buf) == 0 {
		o.buf = make([]byte, 1<<16)
	}
	if o.n > 0 && (size != o.segment || o.n+size > maxGSO || o.batchPackets == maxSegments) {
		if err := o.flush(); err != nil {
			return nil, err
		}
	}
	buf := o.buf[o.n : o.n+size]
	o.segment = size
	o.n += size
	o.batchPackets++
	return buf, nil
}
