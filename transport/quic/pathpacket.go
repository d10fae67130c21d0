package quic

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// Packets between two nodes on the socket of a QUIC connection that are not of QUIC. docs/format/wire.md draws them. A
// packet that the path does not carry travels in halves; the peer reassembles them before quic-go sees the packet.

// Kinds, in the first byte of a packet. Its two highest bits are zero, unlike in any packet of QUIC (RFC 9443).
const (
	kindFirstHalf  = 0x20 // first half of a packet
	kindSecondHalf = 0x21 // second half
	kindProbe      = 0x22 // asks whether a packet of this size arrives
	kindAnswer     = 0x23 // says that the probe has arrived

	pathKinds = 4
)

// Bytes of the header that all kinds begin with, and of the authentication tag at their end.
const (
	pathHeaderSize = 20
	pathTagSize    = 16
	pathOverhead   = pathHeaderSize + pathTagSize
)

// isPathPacket reports whether a packet claims to be of one of these kinds.
func isPathPacket(b []byte) bool { return len(b) > 0 && b[0]&0xC0 == 0 }

// pathHeader is the header of all kinds.
type pathHeader struct {
	kind   byte
	length int    // bytes: of the whole packet, or of the probe
	number uint64 // of the packet in halves, or of the round of probes
	token  uint64 // identifies connection and direction
}

// parse reads the header of a packet, and reports whether the packet has the length that its header demands.
func (h *pathHeader) parse(b []byte) bool {
	if len(b) < pathOverhead || b[0]-kindFirstHalf >= pathKinds {
		return false
	}
	h.kind = b[0]
	h.length = int(binary.LittleEndian.Uint16(b[2:]))
	h.number = binary.LittleEndian.Uint64(b[4:])
	h.token = binary.LittleEndian.Uint64(b[12:])
	return h.length >= minPacketSize && h.length <= maxPacketSize && len(b) == h.size()
}

// size is the length of the packet with this header. The second half of an odd packet has a byte of padding, so that
// both leave in one system call.
func (h *pathHeader) size() int {
	switch h.kind {
	case kindProbe:
		return h.length
	case kindAnswer:
		return pathOverhead
	}
	return pathOverhead + (h.length+1)/2
}

// pathKeyMaterial is the number of bytes of key material in a pathKey.
const pathKeyMaterial = 8 + 16

// pathKey authenticates the packets of one direction of a connection, so that no third party can confirm probes or
// forge halves. It encrypts nothing: halves are pieces of packets that QUIC has encrypted.
type pathKey struct {
	token uint64
	aead  cipher.AEAD
}

func newPathKey(material []byte) (pathKey, error) {
	k := pathKey{token: binary.LittleEndian.Uint64(material)}
	block, err := aes.NewCipher(material[8:pathKeyMaterial])
	if err != nil {
		return k, err
	}
	k.aead, err = cipher.NewGCM(block)
	return k, err
}

// seal makes a packet of a header and a body in the h.size() bytes of b. The first 12 bytes are the nonce, so they must
// never repeat with other content: a half has a number of its own, and packets with other nonces have no body.
func (k *pathKey) seal(b []byte, h pathHeader, body []byte) {
	b[0], b[1] = h.kind, 0
	binary.LittleEndian.PutUint16(b[2:], uint16(h.length))
	binary.LittleEndian.PutUint64(b[4:], h.number)
	binary.LittleEndian.PutUint64(b[12:], k.token)
	end := h.size() - pathTagSize
	clear(b[pathHeaderSize+copy(b[pathHeaderSize:end], body) : end])
	k.aead.Seal(b[:end], b[:12], nil, b[:end])
}

// isAuthentic reports whether a packet that parses was sealed with the key.
func (k *pathKey) isAuthentic(b []byte) bool {
	end := len(b) - pathTagSize
	_, err := k.aead.Open(nil, b[:12], b[end:], b[:end])
	return err == nil
}

// maxReassemblies is how many packets may wait for their other half. Both leave at once, and few packets are reordered.
const maxReassemblies = 64

// reassembly is a packet of which one half has arrived.
type reassembly struct {
	number         uint64
	packetLength   int
	receivedHalves byte // bit 0 the first, bit 1 the second
	buf            []byte
}

// reassemble adds a half. It returns the packet when both halves are there, and how many halves were dropped: if two
// packets need the same place, the older one's. The packet is valid until maxReassemblies others have arrived.
func reassemble(pending *[maxReassemblies]reassembly, h *pathHeader, b []byte) (packet []byte, lost int) {
	j := &pending[h.number%maxReassemblies]
	if j.receivedHalves != 0 && (j.number != h.number || j.packetLength != h.length) {
		if h.number <= j.number {
			return nil, 1
		}
		lost, j.receivedHalves = 1, 0
	}
	if j.buf == nil {
		j.buf = make([]byte, maxPacketSize+1)
	}
	j.number, j.packetLength = h.number, h.length
	which := h.kind - kindFirstHalf
	copy(j.buf[int(which)*((h.length+1)/2):], b[pathHeaderSize:len(b)-pathTagSize])
	if j.receivedHalves |= 1 << which; j.receivedHalves != 3 {
		return nil, lost
	}
	j.receivedHalves = 0
	return j.buf[:h.length], lost
}
