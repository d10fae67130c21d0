package express

import "encoding/binary"

// Version of the packets. It is part of their first byte, whose two highest bits are zero: those of a QUIC packet never
// are both (RFC 9000, section 17; RFC 9443 keeps 0 to 63 for other protocols on the same port).
const Version = 1

// Kind of a packet.
type Kind uint8

// Kinds of packets.
const (
	Datagram    Kind = 0 // one datagram of the link
	Probe       Kind = 1 // does a packet of this size arrive?
	ProbeAnswer Kind = 2 // it does, and here is one of the same size

	kinds = 3
)

// Sizes in bytes. docs/format/express.md draws the packet.
const (
	HeaderSize = 16
	// Overhead is what a packet holds beside the datagram, with either seal: header, and tag or session number and
	// checksum.
	Overhead = HeaderSize + trailer
	trailer  = 16
	// maxHead is how much of a datagram may stay in clear.
	maxHead = 255
)

// Is reports whether a packet from a socket that QUIC uses too is one of ours, or pretends to be.
func Is(b []byte) bool { return len(b) > 0 && b[0]&0xC0 == 0 }

// Header is the first 16 bytes of a packet.
type Header struct {
	Kind    Kind
	Head    int    // bytes of the datagram that follow in clear
	Epoch   uint16 // of the key: low bits
	Session uint32 // as the receiver numbered it
	Number  uint64 // of the packet
}

func (h *Header) put(b []byte) {
	_ = b[HeaderSize-1]
	b[0] = Version<<4 | byte(h.Kind)
	b[1] = byte(h.Head)
	binary.LittleEndian.PutUint16(b[2:], h.Epoch)
	binary.LittleEndian.PutUint32(b[4:], h.Session)
	binary.LittleEndian.PutUint64(b[8:], h.Number)
}

// Parse reads a packet's header. It reports false for a packet that is too short, of another version or of an unknown
// kind, or does not hold what its header speaks of; it checks nothing else.
func (h *Header) Parse(b []byte) bool {
	if len(b) < Overhead || b[0]>>4 != Version {
		return false
	}
	h.Kind = Kind(b[0] & 0xF)
	h.Head = int(b[1])
	h.Epoch = binary.LittleEndian.Uint16(b[2:])
	h.Session = binary.LittleEndian.Uint32(b[4:])
	h.Number = binary.LittleEndian.Uint64(b[8:])
	return h.Kind < kinds && Overhead+h.Head <= len(b)
}
