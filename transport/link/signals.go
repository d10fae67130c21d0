package link

type sigSlot struct {
	data     []byte
	occupied bool
}

// signals are the messages of both directions: sent ones until they are acked, and received ones that wait for an
// earlier one. Their numbers are independent of datagram numbers.
type signals struct {
	*notices // immutable

	out           []sigSlot // by number, modulo its length, a power of two; grows
	nextNumber    uint32
	nextToSend    uint32
	oldestUnacked uint32

	in       [maxUnackedSignals]sigSlot
	expected uint32
}

func newSignals(n *notices) signals { return signals{notices: n, out: make([]sigSlot, 16)} }

// queue queues a copy of a message.
func (g *signals) queue(p []byte) {
	if int(g.nextNumber-g.oldestUnacked) == len(g.out) {
		g.grow()
	}
	s := g.slot(g.nextNumber)
	s.data, s.occupied = append(s.data[:0], p...), true
	g.nextNumber++
	g.stats.SignalsSent++
}

func (g *signals) slot(seq uint32) *sigSlot { return &g.out[seq&uint32(len(g.out)-1)] }

func (g *signals) grow() {
	old := g.out
	g.out = make([]sigSlot, 2*len(old))
	for seq := g.oldestUnacked; seq != g.nextNumber; seq++ {
		*g.slot(seq) = old[seq&uint32(len(old)-1)]
	}
}

// pending reports whether a signal waits for its first transmission, and fewer than maxUnackedSignals are unacked.
func (g *signals) pending() bool {
	return g.nextToSend != g.nextNumber && g.nextToSend-g.oldestUnacked < maxUnackedSignals
}

// put writes as many signals as fit behind the first n bytes of a datagram, and returns its length.
func (g *signals) put(buf []byte, n, pathSize int, r *sentDatagram) int {
	for g.pending() {
		s := g.slot(g.nextToSend)
		if n+signalHeader+len(s.data) > pathSize {
			break
		}
		r.frames = append(r.frames, sentFrame{kind: frameSignal, id: g.nextToSend})
		n += putSignal(buf[n:], g.nextToSend, s.data)
		g.nextToSend++
	}
	return n
}

// putAgain writes a signal again unless it has arrived meanwhile, and returns its length.
func (g *signals) putAgain(b []byte, seq uint32) int {
	if s := g.slot(seq); int32(seq-g.oldestUnacked) >= 0 && s.occupied {
		return putSignal(b, seq, s.data)
	}
	return 0
}

// onAcked frees the signals of a datagram that has arrived.
func (g *signals) onAcked(r *sentDatagram) {
	for _, it := range r.frames {
		if it.kind == frameSignal {
			g.slot(it.id).occupied = false
		}
	}
	for g.oldestUnacked != g.nextToSend && !g.slot(g.oldestUnacked).occupied {
		g.oldestUnacked++
	}
}

// receive delivers signals in order, and keeps one that arrives before an earlier one.
func (g *signals) receive(seq uint32, p []byte) string {
	ahead := int32(seq - g.expected)
	if ahead < 0 {
		g.stats.SignalsDuplicate++
		return ""
	}
	if ahead >= maxUnackedSignals {
		return "a signal is numbered too far ahead"
	}
	if ahead > 0 {
		s := &g.in[seq%maxUnackedSignals]
		s.data, s.occupied = append(s.data[:0], p...), true
		return ""
	}
	g.deliver(p)
	for s := &g.in[g.expected%maxUnackedSignals]; s.occupied; s = &g.in[g.expected%maxUnackedSignals] {
		s.occupied = false
		g.deliver(s.data)
	}
	return ""
}

func (g *signals) deliver(p []byte) {
	g.expected++
	g.stats.SignalsReceived++
	g.emit(Event{Kind: EventSignal, Data: p})
}
