package quic

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// What goes between two nodes beside the packets of a QUIC connection, on its socket. docs/format/wire.md lists it. A
// packet that the path does not carry travels in halves, which the peer puts together before quic-go sees it.

// Kinds, as the first byte of a packet. The two highest bits are zero, which no packet of QUIC has (RFC 9443).
const (
	kindFirstHalf  = 0x20 // first half of a packet
	kindSecondHalf = 0x21 // second half
	kindProbe      = 0x22 // does a packet of this size arrive?
	kindAnswer     = 0x23 // it does

	pathKinds = 4
)

// Bytes: what all of them begin with, and the seal that all end with.
const (
	pathHeaderSize = 20
	pathTagSize    = 16
	pathOverhead   = pathHeaderSize + pathTagSize
)

// isPathPacket reports whether a packet is one of these, or pretends to be.
func isPathPacket(b []byte) bool { return len(b) > 0 && b[0]&0xC0 == 0 }

// pathHeader is what they begin with.
type pathHeader struct {
	kind   byte
	length int    // bytes: of the whole packet, or of the probe
	number uint64 // of the packet that was cut, or of the round of probes
	token  uint64 // of the connection and direction
}

// parse reads the header of a packet and holds the packet's length against it.
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

// size returns the size of the path packet that begins with this header. A packet of odd size is sent in two halves of
// one size, so that both leave in one system call: the second half ends with a byte that means nothing.
func (h *pathHeader) size() int {
	switch h.kind {
	case kindProbe:
		return h.length
	case kindAnswer:
		return pathOverhead
	}
	return pathOverhead + (h.length+1)/2
}

// pathKeyMaterial is how many bytes of the TLS session make a pathKey.
const pathKeyMaterial = 8 + 16

// pathKey seals what goes in one direction of a connection, so that no other host can say that a probe has arrived, or
// slip in a half. It hides nothing: halves are of packets that QUIC has encrypted.
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

// seal makes a packet of a header and what follows it, in the h.size() bytes of b. The first 12 bytes, the nonce, stand
// for one content only: numbers of halves are used once, and what else there is has none.
func (k *pathKey) seal(b []byte, h pathHeader, body []byte) {
	b[0], b[1] = h.kind, 0
	binary.LittleEndian.PutUint16(b[2:], uint16(h.length))
	binary.LittleEndian.PutUint64(b[4:], h.number)
	binary.LittleEndian.PutUint64(b[12:], k.token)
	end := h.size() - pathTagSize
	clear(b[pathHeaderSize+copy(b[pathHeaderSize:end], body) : end])
	k.aead.Seal(b[:end], b[:12], nil, b[:end])
}

// isAuthentic reports whether a packet that parses was made with the key.
func (k *pathKey) isAuthentic(b []byte) bool {
	end := len(b) - pathTagSize
	_, err := k.aead.Open(nil, b[:12], b[end:], b[:end])
	return err == nil
}

// maxReassemblies is how many packets may wait for a half. Both leave at once; a queue reorders few.
const maxReassemblies = 64

// reassembly is a packet of which halves have come.
type reassembly struct {
	number         uint64
	packetLength   int
	receivedHalves byte // bit 0 the first, bit 1 the second
	buf            []byte
}

// reassemble puts a half to its other one. It returns the packet when both are there, and how many halves were given
// up: that of another packet, or this one, if it is the older. The packet is valid until as many others have come.
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
