package express

import (
	"encoding/binary"

	"ringlet/transport/gcm"
)

// Kind of a packet: the type of its frame.
type Kind uint8

// Kinds of packets.
const (
	Datagram    Kind = 0x30 // one datagram of the link, to the end of the packet (RFC 9221, section 4)
	Probe       Kind = 0x1a // PATH_CHALLENGE: does a packet of this size arrive? (RFC 9000, section 19.17)
	ProbeAnswer Kind = 0x1b // PATH_RESPONSE: it does, and here is one of the same size
)

// Sizes in bytes. docs/format/quic.md draws the packet.
const (
	idSize       = 8
	numberSize   = 4 // of the packet number: the longest that there is
	NumberOffset = 1 + idSize
	HeaderSize   = NumberOffset + numberSize
	kindSize     = 1
	// Overhead is what a packet holds beside the datagram: header, type of the frame, tag.
	Overhead = HeaderSize + kindSize + gcm.Overhead
	// peekSize is how much of a datagram is known before the packet is opened, if it has as much.
	peekSize = gcm.FirstSize - kindSize
	// splitSize is the size of packets which have a body that may lie, or belong, elsewhere.
	splitSize = HeaderSize + gcm.FirstSize + gcm.Overhead

	sampleSize   = 16
	sampleOffset = NumberOffset + 4 // RFC 9001, section 5.4.2: as if the number had 4 bytes, which it has
)

// First byte of a packet with a short header (RFC 9000, section 17.3.1): 0, 1, spin, two reserved, key phase, and the
// number's length less one. What is behind the spin bit is protected.
const (
	firstByte     = 0x40 | numberSize - 1
	phaseBit      = 0x04
	protectedBits = 0x1f
	fixedBits     = 0xff &^ (phaseBit | spinBit)
	spinBit       = 0x20
	sessionBit    = 0x80 // of the first byte of a connection ID: a session of this package, and not of quic-go
)

// IsSession reports whether a packet from a socket that quic-go uses too is one of a session, or pretends to be: a
// short header, and a connection ID that begins with a bit that quic-go's never have here (ClearSessionBit).
func IsSession(b []byte) bool { return len(b) > 1 && b[0]&0xC0 == 0x40 && b[1]&sessionBit != 0 }

// NewSessionID makes the connection ID of a session out of 64 random bits.
func NewSessionID(random uint64) uint64 { return random | sessionBit<<56 }

// ClearSessionBit makes a connection ID one that no session has.
func ClearSessionBit(id []byte) { id[0] &^= sessionBit }

// SessionID is the connection ID of a packet; false where the packet is too short.
func SessionID(b []byte) (uint64, bool) {
	if len(b) < Overhead {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[1:]), true
}

// header is what stands before what is sealed.
type header struct {
	phase   byte // 0 or 1
	session uint64
	number  uint64
}

// marshal writes a header without its protection.
func (h *header) marshal(b []byte) {
	_ = b[HeaderSize-1]
	b[0] = firstByte | h.phase*phaseBit
	binary.BigEndian.PutUint64(b[1:], h.session)
	binary.BigEndian.PutUint32(b[NumberOffset:], uint32(h.number))
}

// expandNumber is that of which the packet has the lowest 32 bits: the one nearest to next, which is expected (RFC
// 9000, appendix A.3).
func expandNumber(low uint32, next uint64) uint64 {
	const window, halfWindow = 1 << 32, 1 << 31
	n := next&^(window-1) | uint64(low)
	switch {
	case n+halfWindow <= next && n < 1<<62-window:
		return n + window
	case n > next+halfWindow && n >= window:
		return n - window
	}
	return n
}
