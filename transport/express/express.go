package express

// Pipeline of a packet:
//
//	1 Seal    (sequential: the link's sender)    encrypts header and first bytes, and the body from the writer's memory
//	2 Inspect (sequential: the socket's reader)  checks header, key and number; nothing is authenticated yet
//	3 Peek    (sequential: the socket's reader)  decrypts the first bytes of a datagram, which say where its body belongs
//	4 Open…   (sequential: the socket's reader)  decrypts the body into its place, or the packet into a buffer
//
// Nothing allocates but a change of keys, every 2²² packets.

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"ringlet/transport/gcm"
)

// Sealer encrypts the packets of one direction.
type Sealer struct {
	header     header
	ratchet    ratchet
	key        key
	mask       headerMask
	nonce      [gcm.NonceSize]byte
	firstBytes [gcm.FirstSize]byte
}

// NewSealer makes a sealer for the connection ID that the receiver has chosen for its session, with the direction's
// first traffic secret.
func NewSealer(secret []byte, session uint64) (*Sealer, error) {
	keys, err := newRatchet(secret)
	if err != nil {
		return nil, err
	}
	x := &Sealer{header: header{session: session}, ratchet: keys, mask: newMask(secret)}
	x.key, err = x.ratchet.nextKey()
	return x, err
}

// Seal writes a packet to dst and returns its length: Overhead more than head and body have. dst must be long enough,
// and must not overlap head or body.
func (x *Sealer) Seal(dst []byte, kind Kind, head, body []byte) (int, error) {
	h := &x.header
	for h.number/packetsPerKey >= uint64(x.ratchet.epoch) {
		// After an error the key stays, so Seal fails again and encrypts nothing more with a key that is used up.
		k, err := x.ratchet.nextKey()
		if err != nil {
			return 0, err
		}
		x.key, h.phase = k, h.phase^1
	}
	n := Overhead + len(head) + len(body)
	dst = dst[:n]
	h.marshal(dst)
	x.key.putNonce(&x.nonce, h.number)
	h.number++
	aad, sealed := dst[:HeaderSize], dst[HeaderSize:]
	if n >= splitSize && len(head) < peekSize {
		x.firstBytes[0] = byte(kind)
		at := kindSize + copy(x.firstBytes[kindSize:], head)
		at = copy(x.firstBytes[at:], body)
		x.key.aead.SealApart(sealed, x.nonce[:], &x.firstBytes, body[at:], aad)
	} else {
		sealed[0] = byte(kind)
		at := kindSize + copy(sealed[kindSize:], head)
		at += copy(sealed[at:], body)
		x.key.aead.Seal(sealed[:0], x.nonce[:], sealed[:at], aad)
	}
	x.mask.apply(dst)
	return n, nil
}

// Verdict says whether a packet is accepted, and if not, why.
type Verdict uint8

// Verdicts.
const (
	Fresh      Verdict = iota // it may be opened
	Replayed                  // its number was accepted before, or is too old to tell
	UnknownKey                // encrypted with a key that is not in use
	Malformed                 // no peer makes such a packet
	Forged                    // it fails authentication: not sealed by the peer, or damaged on the way
)

// Opener decrypts the packets of one direction.
type Opener struct {
	ratchet    ratchet
	keys       [3]key // of the epochs firstEpoch to firstEpoch+2: the previous, present and next one
	firstEpoch uint32
	replay     replay
	mask       headerMask

	// of the packet last inspected
	packet     []byte
	number     uint64
	key        *key
	nonce      [gcm.NonceSize]byte
	firstBytes [gcm.FirstSize]byte
}

// NewOpener makes an opener with the direction's first traffic secret.
func NewOpener(secret []byte) (*Opener, error) {
	next, err := newRatchet(secret)
	if err != nil {
		return nil, err
	}
	o := &Opener{ratchet: next, mask: newMask(secret)}
	for range o.keys {
		o.advanceKeys()
	}
	o.firstEpoch = 0 // the first three calls have dropped no key
	return o, nil
}

// Inspect removes the header protection of a packet of at least Overhead bytes, and checks the header. Peek and Open
// then work on this packet. No packet may be inspected twice.
func (o *Opener) Inspect(packet []byte) Verdict {
	o.mask.apply(packet)
	if packet[0]&fixedBits != firstByte {
		return Malformed
	}
	o.packet = packet
	o.number = expandNumber(binary.BigEndian.Uint32(packet[NumberOffset:]), o.replay.next)
	if !o.replay.isFresh(o.number) {
		return Replayed
	}
	e := o.number / packetsPerKey
	if e < uint64(o.firstEpoch) || e >= uint64(o.firstEpoch)+uint64(len(o.keys)) || byte(e)&1 != packet[0]/phaseBit&1 {
		return UnknownKey
	}
	o.key = &o.keys[e-uint64(o.firstEpoch)]
	o.key.putNonce(&o.nonce, o.number)
	return Fresh
}

// Peek decrypts the first bytes of the inspected packet's datagram, and returns them and the number of bytes behind
// them. It returns nil for another frame, and for a datagram too short to have a separate body. The bytes are not
// authenticated yet.
func (o *Opener) Peek() (first []byte, rest int) {
	if len(o.packet) < splitSize {
		return nil, 0
	}
	o.key.aead.Peek(&o.firstBytes, o.nonce[:], o.packet[HeaderSize:])
	if Kind(o.firstBytes[0]) != Datagram {
		return nil, 0
	}
	return o.firstBytes[kindSize:], len(o.packet) - splitSize
}

// OpenRest decrypts the bytes behind those of Peek into dst, which must have exactly their length. If the packet is not
// authentic, dst holds undefined bytes.
func (o *Opener) OpenRest(dst []byte) Verdict {
	if err := o.key.aead.OpenApart(dst, o.nonce[:], o.packet[HeaderSize:], o.packet[:HeaderSize]); err != nil {
		return Forged
	}
	o.accept()
	return Fresh
}

// PlainSize is the largest number of bytes that Open writes.
func PlainSize(packet []byte) int { return len(packet) - HeaderSize }

// Open decrypts the inspected packet into dst, which must have PlainSize bytes. It returns the packet's kind and the
// frame's data.
func (o *Opener) Open(dst []byte) (Kind, []byte, Verdict) {
	plain, err := o.key.aead.Open(dst[:0], o.nonce[:], o.packet[HeaderSize:], o.packet[:HeaderSize])
	if err != nil {
		return 0, nil, Forged
	}
	o.accept()
	k := Kind(plain[0])
	if plain = plain[kindSize:]; k != Datagram && (k != Probe && k != ProbeAnswer || !isPadding(plain)) {
		return 0, nil, Malformed
	}
	return k, plain, Fresh
}

// accept notes that the inspected packet is authentic.
func (o *Opener) accept() {
	o.replay.markSeen(o.number)
	if o.number/packetsPerKey == uint64(o.firstEpoch)+2 {
		o.advanceKeys()
	}
}

// advanceKeys drops the oldest key and makes one after the newest, which the peer has begun to use.
func (o *Opener) advanceKeys() {
	next, err := o.ratchet.nextKey()
	if err != nil {
		return // the session has used all its keys: packets with later ones are rejected and counted
	}
	o.keys = [3]key{o.keys[1], o.keys[2], next}
	o.firstEpoch++
}

// ProbeData is the size of a probe's data, which the answer repeats, bytes. PADDING frames, which are zeros, follow it.
const ProbeData = 8

func isPadding(b []byte) bool {
	return len(b) >= ProbeData && len(bytes.Trim(b[ProbeData:], "\x00")) == 0
}

// Kind of a packet: the type of its frame.
type Kind uint8

// Kinds of packets.
const (
	Datagram    Kind = 0x30 // a datagram of the link, to the end of the packet (RFC 9221, section 4)
	Probe       Kind = 0x1a // PATH_CHALLENGE: asks whether a packet of this size arrives (RFC 9000, section 19.17)
	ProbeAnswer Kind = 0x1b // PATH_RESPONSE: it has arrived; the answer has the same size
)

// Sizes in bytes. docs/format/quic.md draws the packet.
const (
	idSize       = 8
	numberSize   = 4 // of the packet number: the longest in QUIC
	NumberOffset = 1 + idSize
	HeaderSize   = NumberOffset + numberSize
	kindSize     = 1
	// Overhead is the bytes of a packet beside the datagram: header, type of the frame, tag.
	Overhead = HeaderSize + kindSize + gcm.Overhead
	// peekSize is how much of a datagram Peek returns.
	peekSize = gcm.FirstSize - kindSize
	// splitSize is the smallest size of packets whose datagram may have a separate body.
	splitSize = HeaderSize + gcm.FirstSize + gcm.Overhead

	sampleSize   = 16
	sampleOffset = NumberOffset + 4 // RFC 9001, section 5.4.2, assumes a packet number of 4 bytes; here it has 4
)

// First byte of a packet with a short header (RFC 9000, section 17.3.1): 0, 1, spin, two reserved, key phase, and the
// number's length less one. The bits behind the spin bit are protected.
const (
	firstByte     = 0x40 | numberSize - 1
	phaseBit      = 0x04
	protectedBits = 0x1f
	fixedBits     = 0xff &^ (phaseBit | spinBit)
	spinBit       = 0x20
	sessionBit    = 0x80 // of a connection ID's first byte: set in sessions of this package, clear in quic-go's IDs
)

// IsSession reports whether a packet from the socket claims to belong to a session: it has a short header, and a
// connection ID with the bit that ClearSessionBit clears in quic-go's.
func IsSession(b []byte) bool { return len(b) > 1 && b[0]&0xC0 == 0x40 && b[1]&sessionBit != 0 }

// NewSessionID makes a session's connection ID from 64 random bits.
func NewSessionID(random uint64) uint64 { return random | sessionBit<<56 }

// ClearSessionBit makes a connection ID differ from those of all sessions.
func ClearSessionBit(id []byte) { id[0] &^= sessionBit }

// SessionID returns the connection ID of a packet; false if the packet is too short.
func SessionID(b []byte) (uint64, bool) {
	if len(b) < Overhead {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[1:]), true
}

// header is the unencrypted part of a packet.
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

// expandNumber returns the full packet number with the given lowest 32 bits: the one nearest to next, the expected
// number (RFC 9000, appendix A.3).
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

// packetsPerKey is how many packets one key encrypts: half of the limit for AES-128-GCM in RFC 9001, section 6.6.
const packetsPerKey = 1 << 22

// maxEpochs bounds the keys of a session: 2³⁸ packets. After that the nodes must make a new link.
const maxEpochs = 1 << 16

// SecretSize is the size of a traffic secret, bytes.
const SecretSize = sha256.Size

// must is for library calls that fail only for wrong sizes, which are constants here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("express: %v", err))
	}
	return v
}

// expand is HKDF-Expand-Label of TLS 1.3 without a context (RFC 8446, section 7.1).
func expand(secret []byte, label string, n int) []byte {
	const prefix = "tls13 "
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len(prefix)+len(label)))
	info = append(append(info, prefix+label...), 0)
	return must(hkdf.Expand(sha256.New, secret, string(info), n))
}

// key is the key of one epoch.
type key struct {
	aead gcm.AEAD
	iv   [gcm.NonceSize]byte
}

// newKey derives the key of an epoch (RFC 9001, section 5.1).
func newKey(secret []byte) key {
	return key{
		aead: must(gcm.New(expand(secret, "quic key", gcm.KeySize))),
		iv:   [gcm.NonceSize]byte(expand(secret, "quic iv", gcm.NonceSize)),
	}
}

// putNonce writes the nonce of a packet: the iv, with the number xored into its last eight bytes (RFC 9001, section
// 5.3).
func (k *key) putNonce(to *[gcm.NonceSize]byte, number uint64) {
	*to = k.iv
	binary.BigEndian.PutUint64(to[4:], binary.BigEndian.Uint64(to[4:])^number)
}

// ratchet makes the keys of one direction, one after the other. From a later secret no earlier one can be computed.
type ratchet struct {
	secret []byte
	epoch  uint32 // of the next key
}

func newRatchet(secret []byte) (ratchet, error) {
	if len(secret) != SecretSize {
		return ratchet{}, fmt.Errorf("a traffic secret of %d bytes; it must have %d", len(secret), SecretSize)
	}
	return ratchet{secret: secret}, nil
}

// nextKey makes the key of the next epoch (RFC 9001, section 6.1).
func (r *ratchet) nextKey() (key, error) {
	if r.epoch >= maxEpochs {
		return key{}, fmt.Errorf("the session has sealed %d packets, the most that its keys may: the link must be made anew",
			uint64(maxEpochs)*packetsPerKey)
	}
	k := newKey(r.secret)
	r.secret = expand(r.secret, "quic ku", SecretSize)
	r.epoch++
	return k, nil
}

// headerMask protects the first byte and the number of a packet (RFC 9001, section 5.4.3). Its key never changes.
type headerMask struct {
	block cipher.Block
	bits  [aes.BlockSize]byte
}

func newMask(secret []byte) headerMask {
	return headerMask{block: must(aes.NewCipher(expand(secret, "quic hp", gcm.KeySize)))}
}

// apply protects the header of a packet, or removes the protection.
func (m *headerMask) apply(packet []byte) {
	m.block.Encrypt(m.bits[:], packet[sampleOffset:sampleOffset+sampleSize])
	packet[0] ^= m.bits[0] & protectedBits
	number := packet[NumberOffset:HeaderSize]
	binary.BigEndian.PutUint32(number, binary.BigEndian.Uint32(number)^binary.BigEndian.Uint32(m.bits[1:]))
}

// replayWindow is how far a packet may arrive behind the newest: more than twice a link's packets in flight.
const replayWindow = 8192

// ReplayDepth is how many of the newest packet numbers the window surely tells from new ones.
const ReplayDepth = replayWindow - 64

// replay remembers accepted packet numbers, in the manner of RFC 6479.
type replay struct {
	bits [replayWindow / 64]uint64
	next uint64 // the highest accepted number, plus one
}

// isFresh reports whether number n is new; numbers older than ReplayDepth count as accepted.
func (r *replay) isFresh(n uint64) bool {
	if n >= r.next {
		return true
	}
	if r.next-n > ReplayDepth {
		return false
	}
	return r.bits[n/64%uint64(len(r.bits))]&(1<<(n%64)) == 0
}

// markSeen notes that number n, which is fresh, is accepted.
func (r *replay) markSeen(n uint64) {
	if n >= r.next {
		first, last := (r.next+63)/64, n/64
		if last-first >= uint64(len(r.bits)) && last >= first {
			clear(r.bits[:])
		} else {
			for w := first; w <= last; w++ {
				r.bits[w%uint64(len(r.bits))] = 0
			}
		}
		r.next = n + 1
	}
	r.bits[n/64%uint64(len(r.bits))] |= 1 << (n % 64)
}
