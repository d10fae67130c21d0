package quic

// The way of an express packet, all in the socket reader's goroutine. Nothing here allocates.
//
//	1 take   headers parsed; the session found, once per run of packets of one session
//	2 look   the number and the key judged; what is refused costs a counter and nothing else
//	3 aim    the link says where the body belongs, or it is opened aside
//	4 open   body → its place in the exported segment; not authentic: a counter
//	5 dry    nothing more is at hand: echoes fall due

import (
	"sync/atomic"

	"ringlet/transport/express"
)

// maxSessions bounds the express links of a node; the low bits of a session's number are its place.
const maxSessions = 1 << 12

// ExpressStats counts packets of the carrier express, and why some were not used.
type ExpressStats struct {
	Packets    uint64 // that came
	Malformed  uint64 // no header, of another version, or longer than they are
	Strangers  uint64 // of no session that is open
	Replayed   uint64 // with a number that has been seen, or is too old
	UnknownKey uint64 // of a key that is not in use
	Forged     uint64 // that do not open: not sealed by the peer, or damaged
	Early      uint64 // before the link was up, or after it was closed
}

// sessions gives express packets to their sessions.
type sessions struct {
	byNumber [maxSessions]atomic.Pointer[expressConn]

	// atomic, written by the reader alone
	packets, malformed, strangers, replayed, unknownKey, forged, early atomic.Uint64

	// owned by the reader
	touched []*expressConn // have taken packets since the last dry
	aside   []byte         // where bodies without a place are opened: room for one read
	used    int
	header  express.Header
}

func (b *sessions) stats() ExpressStats {
	return ExpressStats{
		Packets: b.packets.Load(), Malformed: b.malformed.Load(), Strangers: b.strangers.Load(), Replayed: b.replayed.Load(),
		UnknownKey: b.unknownKey.Load(), Forged: b.forged.Load(), Early: b.early.Load(),
	}
}

// add counts without a locked instruction: there is one writer.
func add(c *atomic.Uint64, n uint64) { c.Store(c.Load() + n) }

// take takes what one read has brought: packets of segment bytes, the last maybe shorter.
func (b *sessions) take(packets []byte, segment int) {
	if b.aside == nil {
		b.aside = make([]byte, 1<<16)
	}
	b.used = 0
	var at *expressConn
	for len(packets) > 0 {
		p := packets[:min(segment, len(packets))]
		packets = packets[len(p):]
		add(&b.packets, 1)
		if b.header.Parse(p) != nil {
			add(&b.malformed, 1)
			continue
		}
		c := b.byNumber[b.header.Session%maxSessions].Load()
		if c == nil || c.session != b.header.Session {
			add(&b.strangers, 1)
			continue
		}
		if c != at {
			at.end()
			at = c.begin(b)
		}
		c.packet(b, p, &b.header)
	}
	at.end()
}

// dry tells the links that took packets that nothing more is at hand.
func (b *sessions) dry() {
	for i, c := range b.touched {
		c.touched = false
		c.dry()
		b.touched[i] = nil
	}
	b.touched = b.touched[:0]
}

// room is a piece of the memory aside, as long as the packets of one read may need.
func (b *sessions) room(n int) []byte {
	r := b.aside[b.used : b.used+n]
	b.used += n
	return r
}
