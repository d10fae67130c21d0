package quic

// The way to a peer, below quic-go: whether it carries full packets, and what is done where it does not.
//
//	probing    1 turn   (a timer's goroutine)    sends a round of probes from time to time, while the connection sends
//	           2 take   (the socket's reader)    the peer answers them, and the answers are told to the hole
//	narrow     3 write  (quic-go's, one a peer)  packets above leastPacket leave in halves
//	           4 take   (the socket's reader)    halves are put together, and quic-go gets the packet
//
// As long as no way is narrow, what is sent costs one load of a pointer.

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

// wayLabel is what token and key are exported under; the context is the direction, as for express.
const wayLabel = "EXPORTER-ringlet-way-v1"

// WayStats counts what was done about ways that carry no full packets.
type WayStats struct {
	Shrunk          uint64 `help:"times that full packets of QUIC were found to vanish while small ones passed"`
	Grown           uint64 `help:"times that full packets of QUIC were found to pass again"`
	ProbesSent      uint64 `help:"probes that find this out, up to four a second for each link that sends"`
	HalvesSent      uint64 `help:"halves sent of packets that the path did not carry whole"`
	HalvesReceived  uint64 `help:"halves of packets that came"`
	HalvesLost      uint64 `help:"halves whose other half has not come; QUIC sends again what was in them"`
	HalvesMalformed uint64 `help:"halves, probes and answers not understood; dropped"`
	HalvesStrange   uint64 `help:"halves, probes and answers of no link that is up; dropped"`
	HalvesForged    uint64 `help:"halves, probes and answers not sealed by the peer, or damaged; dropped"`
}

// ways are those of a network's connections that QUIC's own packets go.
type ways struct {
	narrow atomic.Pointer[map[netip.AddrPort]*way] // by address; nil: none

	mu      sync.Mutex // guards byToken and the making of narrow
	byToken map[uint64]*way

	count WayStats // atomic
}

// way is that of one connection.
type way struct {
	// immutable
	ways    *ways
	to      netip.AddrPort
	size    int     // bytes of a full packet
	out, in halfKey // of what is sent and of what comes
	used    func() uint64
	tell    func(narrow bool)
	start   time.Time

	mu     sync.Mutex // guards what follows, and is held for no system call that waits
	hole   hole
	prober *sender
	before uint64 // used at the last round
	timer  *time.Timer
	over   bool

	sending sync.Mutex // guards what follows
	halves  *sender
	number  uint64

	at [joints]joint // owned by the socket's reader
}

// watchWay begins to look after the way of a connection whose packets are QUIC's, until the connection is over.
func (c *conn) watchWay(dialler bool) error {
	if c.net.packet <= leastPacket {
		return nil // any path carries those
	}
	to, err := c.remote()
	if err != nil {
		return err
	}
	ws := &c.net.sock.ways
	w := &way{
		ways:  ws,
		to:    addrKey(to),
		size:  c.net.packet,
		start: time.Now(),
	}
	if w.out, err = c.halfKey(dialler); err != nil {
		return err
	}
	if w.in, err = c.halfKey(!dialler); err != nil {
		return err
	}
	w.used = func() uint64 { return c.qc.ConnectionStats().BytesSent }
	w.tell = func(narrow bool) {
		if narrow {
			c.net.log.Warn("full packets do not arrive any more and go in halves: look whether the MTU of the path has changed",
				"peer", c.name, "remote", to, "bytes", w.size)
			return
		}
		c.net.log.Info("full packets arrive again", "peer", c.name, "remote", to, "bytes", w.size)
	}
	w.prober, w.halves = newSender(c.net.sock, to, maxPacket), newSender(c.net.sock, to, 0)
	w.prober.hurry = true
	ws.add(w)
	context.AfterFunc(c.qc.Context(), w.end)
	return nil
}

// halfKey is that of one direction: from the end that has dialled, or to it.
func (c *conn) halfKey(fromDialler bool) (halfKey, error) {
	b, err := c.export(wayLabel, fromDialler, halfMaterial)
	if err != nil {
		return halfKey{}, err
	}
	return newHalfKey(b)
}

func addrKey(a *net.UDPAddr) netip.AddrPort {
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

func (ws *ways) add(w *way) {
	ws.mu.Lock()
	if ws.byToken == nil {
		ws.byToken = map[uint64]*way{}
	}
	ws.byToken[w.in.token] = w
	ws.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(time.Duration(roundEvery), w.turn)
}

// end forgets the way.
func (w *way) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	w.ways.mu.Lock()
	delete(w.ways.byToken, w.in.token)
	w.ways.mu.Unlock()
	w.ways.set(w, false)
}

// set notes whether a way is narrow. Of several connections to one address the last one to find out counts: halves may
// hold the packets of any.
func (ws *ways) set(w *way, narrow bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m := map[netip.AddrPort]*way{}
	if old := ws.narrow.Load(); old != nil {
		m = maps.Clone(*old)
	}
	if narrow {
		m[w.to] = w
	} else if m[w.to] == w {
		delete(m, w.to)
	}
	if len(m) == 0 {
		ws.narrow.Store(nil)
		return
	}
	ws.narrow.Store(&m)
}

// to is the way to an address if it is narrow, or else nil.
func (ws *ways) to(addr *net.UDPAddr) *way {
	if m := ws.narrow.Load(); m != nil {
		return (*m)[addrKey(addr)]
	}
	return nil
}

// turn is called by the timer.
func (w *way) turn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	now, used := w.now(), w.used()
	was := w.hole.narrow
	if w.hole.step(now, used-w.before >= uint64(w.size)) {
		w.before = used
		w.probe(now)
	}
	w.changed(was)
	w.timer.Reset(w.hole.wait(now))
}

func (w *way) now() int64 { return int64(time.Since(w.start)) + 1 } // never 0

// changed draws the conclusions from what the hole was told.
func (w *way) changed(was bool) {
	if w.hole.narrow == was {
		return
	}
	w.ways.set(w, w.hole.narrow)
	if w.hole.narrow {
		tick(&w.ways.count.Shrunk)
	} else {
		tick(&w.ways.count.Grown)
	}
	w.tell(w.hole.narrow)
}

// probe sends a round: a full packet, which may be too long for this host's own interface, and then a small one.
func (w *way) probe(now int64) {
	for _, size := range [...]int{w.size, leastPacket} {
		b := w.prober.buf[:size]
		w.out.put(b, halfHeader{kind: kindProbe, length: size, number: w.hole.round}, nil)
		err := w.prober.write(b, size, 1)
		if err != nil && (size == leastPacket || !errors.Is(err, syscall.EMSGSIZE)) {
			w.hole.unsent(now)
			return
		}
		tick(&w.ways.count.ProbesSent)
	}
}

// take takes a half, a probe or an answer off the socket, and returns the packet that is whole with it.
func (ws *ways) take(b []byte) []byte {
	var h halfHeader
	if !h.parse(b) {
		tick(&ws.count.HalvesMalformed)
		return nil
	}
	ws.mu.Lock()
	w := ws.byToken[h.token]
	ws.mu.Unlock()
	if w == nil {
		tick(&ws.count.HalvesStrange)
		return nil
	}
	if !w.in.authentic(b) {
		tick(&ws.count.HalvesForged)
		return nil
	}
	switch h.kind {
	case kindProbe:
		w.answer(&h)
		return nil
	case kindAnswer:
		w.mu.Lock()
		defer w.mu.Unlock()
		was := w.hole.narrow
		w.hole.heard(w.now(), h.number, h.length == w.size)
		w.changed(was)
		return nil
	}
	tick(&ws.count.HalvesReceived)
	whole, lost := joinHalf(&w.at, &h, b)
	atomic.AddUint64(&ws.count.HalvesLost, uint64(lost))
	return whole
}

// answer says that a probe has come. Where there is no room for the answer, there is none.
func (w *way) answer(h *halfHeader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.prober.buf[:halfMore]
	w.out.put(b, halfHeader{kind: kindAnswer, length: h.length, number: h.number}, nil)
	_ = w.prober.write(b, len(b), 1)
}

// write sends packets of segment bytes, the last maybe shorter: those that any path carries as they are, the others in
// halves.
func (w *way) write(b []byte, segment int) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	for len(b) > 0 {
		p := b[:min(segment, len(b))]
		b = b[len(p):]
		if len(p) <= leastPacket {
			room, err := w.room(len(p))
			if err != nil {
				return err
			}
			copy(room, p)
			continue
		}
		w.number++
		atomic.AddUint64(&w.ways.count.HalvesSent, 2)
		step := (len(p) + 1) / 2
		for kind, half := range [...][]byte{p[:step], p[step:]} {
			h := halfHeader{kind: kindFirst + byte(kind), length: len(p), number: w.number}
			room, err := w.room(h.size())
			if err != nil {
				return err
			}
			w.out.put(room, h, half)
		}
	}
	return w.halves.flush()
}

// room makes room for a packet in the batch: one of another size than those in it begins the next.
func (w *way) room(size int) ([]byte, error) {
	o := w.halves
	if len(o.buf) == 0 {
		o.buf = make([]byte, 1<<16)
	}
	if o.n > 0 && (size != o.segment || o.n+size > maxGSO || o.packets == maxSegments) {
		if err := o.flush(); err != nil {
			return nil, err
		}
	}
	room := o.buf[o.n : o.n+size]
	o.segment = size
	o.n += size
	o.packets++
	return room, nil
}
