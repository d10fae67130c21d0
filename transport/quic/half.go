package quic

import "encoding/binary"

// What goes between two nodes beside the packets of a QUIC connection, on its socket. docs/format/wire.md draws it. A
// packet that the path does not carry travels in halves, which the peer puts together before quic-go sees it.

// Kinds, as the first byte of a packet. Like those of express the two highest bits are zero, which no packet of QUIC
// has (RFC 9443); the next ones tell it from those.
const (
	kindFirst  = 0x20 // first half of a packet
	kindSecond = 0x21 // second half
	kindProbe  = 0x22 // does a packet of this size arrive?
	kindAnswer = 0x23 // it does

	halfKinds = 4
)

// halfHead is the length of what all of them begin with.
const halfHead = 16

// isHalf reports whether a packet is one of these, or pretends to be.
func isHalf(b []byte) bool { return len(b) > 0 && b[0]&0xF0 == kindFirst }

// halfHeader is what they begin with.
type halfHeader struct {
	kind   byte
	length int    // bytes: of the whole packet, or of the probe
	number uint32 // of the packet that was cut, or of the round of probes
	token  uint64 // of the connection and direction: nobody else knows it
}

func (h *halfHeader) put(b []byte) {
	_ = b[halfHead-1]
	b[0], b[1] = h.kind, 0
	binary.LittleEndian.PutUint16(b[2:], uint16(h.length))
	binary.LittleEndian.PutUint32(b[4:], h.number)
	binary.LittleEndian.PutUint64(b[8:], h.token)
}

// parse reads the header of a packet and holds the packet's length against it.
func (h *halfHeader) parse(b []byte) bool {
	if len(b) < halfHead || b[0]-kindFirst >= halfKinds {
		return false
	}
	h.kind = b[0]
	h.length = int(binary.LittleEndian.Uint16(b[2:]))
	h.number = binary.LittleEndian.Uint32(b[4:])
	h.token = binary.LittleEndian.Uint64(b[8:])
	if h.length < leastPacket || h.length > maxPacket {
		return false
	}
	switch h.kind {
	case kindProbe:
		return len(b) == h.length
	case kindAnswer:
		return len(b) == halfHead
	}
	return len(b) == halfSize(h.length)
}

// halfSize is the size of either half of a packet; the second of an odd one ends with a byte that means nothing, so
// that both leave in one system call.
func halfSize(length int) int { return halfHead + (length+1)/2 }

// putHalf puts one half of a packet.
func putHalf(b []byte, h *halfHeader, packet []byte) {
	h.put(b)
	step := (len(packet) + 1) / 2
	b = b[halfHead:]
	if h.kind == kindFirst {
		copy(b, packet[:step])
	} else {
		clear(b[copy(b, packet[step:]):])
	}
}

// joints is how many packets may wait for a half. Both leave at once; a queue reorders few.
const joints = 64

// joint is a packet of which halves have come.
type joint struct {
	number uint32
	length int
	have   byte // bit 0 the first, bit 1 the second
	buf    []byte
}

// joinHalf puts a half to its other one. It returns the packet when both are there, and whether a half of another was
// given up for it. The packet is valid until as many others have come.
func joinHalf(at *[joints]joint, h *halfHeader, b []byte) (whole []byte, lost bool) {
	j := &at[h.number%joints]
	if j.have != 0 && (j.number != h.number || j.length != h.length) {
		lost, j.have = true, 0
	}
	if j.buf == nil {
		j.buf = make([]byte, maxPacket+1)
	}
	j.number, j.length = h.number, h.length
	step := (h.length + 1) / 2
	which := h.kind - kindFirst
	copy(j.buf[int(which)*step:], b[halfHead:])
	if j.have |= 1 << which; j.have != 3 {
		return nil, lost
	}
	j.have = 0
	return j.buf[:h.length], lost
}
