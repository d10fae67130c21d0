package express

// Pipeline of a packet:
//
//	1 Seal    (sequential: who holds the link's sending)   header and first bytes, then the body from where it lies
//	2 Inspect (sequential: the socket's reader)            header, key and number looked at; nothing is trusted
//	3 Peek    (sequential: the socket's reader)            the first bytes of a datagram: where does its body belong?
//	4 Open…   (sequential: the socket's reader)            the body straight to where it belongs, or all of it aside
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

// Sealer seals the packets of one direction.
type Sealer struct {
	header     header
	ratchet    ratchet
	key        key
	mask       headerMask
	nonce      [gcm.NonceSize]byte
	firstBytes [gcm.FirstSize]byte
}

// NewSealer makes a sealer for a session that the receiver has named by a connection ID, with the direction's first
// traffic secret.
func NewSealer(secret []byte, session uint64) (*Sealer, error) {
	keys, err := newRatchet(secret)
	if err != nil {
		return nil, err
	}
	x := &Sealer{header: header{session: session}, ratchet: keys, mask: newMask(secret)}
	x.key, err = x.ratchet.nextKey()
	return x, err
}

// Seal writes a packet to dst, which has room for it, and returns its length: Overhead more than head and body have.
// dst must not overlap head or body.
func (x *Sealer) Seal(dst []byte, kind Kind, head, body []byte) (int, error) {
	h := &x.header
	for h.number/packetsPerKey >= uint64(x.ratchet.epoch) {
		// Without a new key nothing changes, so that nothing is ever sealed with a key beyond its life.
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

// Verdict says what becomes of a packet, before anything of it is believed.
type Verdict uint8

// Verdicts.
const (
	Fresh      Verdict = iota // it may be opened
	Replayed                  // its number has been seen, or is too old to know
	UnknownKey                // sealed with a key that is not in use
	Malformed                 // not what a peer seals
	Forged                    // it does not open: not sealed by the peer, or damaged on the way
)

// Opener opens the packets of one direction.
type Opener struct {
	ratchet    ratchet
	keys       [3]key // of epochs from first on: the previous, the present, the next
	firstEpoch uint32
	replay     replay
	mask       headerMask

	// of the packet in hand
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
	o.firstEpoch = 0 // none of them was forgotten
	return o, nil
}

// Inspect takes a packet of at least Overhead bytes in hand, shows its header, and judges it. No packet may be looked
// at twice.
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

// Peek returns the first bytes of the datagram in the packet in hand, and how many follow them; none where the packet
// holds something else, or a datagram that is too short to belong elsewhere. They are not known to be authentic.
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

// OpenRest writes what follows the first bytes of the packet in hand, which has been peeked at, to dst, which must have
// exactly that length. If the packet is not the peer's, what dst holds is undefined.
func (o *Opener) OpenRest(dst []byte) Verdict {
	if err := o.key.aead.OpenApart(dst, o.nonce[:], o.packet[HeaderSize:], o.packet[:HeaderSize]); err != nil {
		return Forged
	}
	o.accept()
	return Fresh
}

// PlainSize is the number of bytes that Open writes at most.
func PlainSize(packet []byte) int { return len(packet) - HeaderSize }

// Open writes the packet in hand to dst, which has room for PlainSize bytes, and returns its kind, and what a datagram
// holds.
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

// accept notes that the packet in hand is authentic.
func (o *Opener) accept() {
	o.replay.markSeen(o.number)
	if o.number/packetsPerKey == uint64(o.firstEpoch)+2 {
		o.advanceKeys()
	}
}

// advanceKeys forgets the oldest key and makes the one after the newest: the peer has begun to use that.
func (o *Opener) advanceKeys() {
	next, err := o.ratchet.nextKey()
	if err != nil {
		return // the session ends here: what comes with later keys is counted
	}
	o.keys = [3]key{o.keys[1], o.keys[2], next}
	o.firstEpoch++
}

// ProbeData is the size of what a probe says and its answer repeats, bytes. PADDING frames, which are zeros, follow it.
const ProbeData = 8

func isPadding(b []byte) bool {
	return len(b) >= ProbeData && len(bytes.Trim(b[ProbeData:], "\x00")) == 0
}

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

// packetsPerKey is how many packets are sealed with one key: half of what RFC 9001, section 6.6, allows for
// AES-128-GCM.
const packetsPerKey = 1 << 22

// maxEpochs bounds the keys of a session: 2³⁸ packets. By then the link must be made anew.
const maxEpochs = 1 << 16

// SecretSize is that of a traffic secret, bytes.
const SecretSize = sha256.Size

// must is for what a library refuses only for sizes that are constants here.
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

// key of one epoch.
type key struct {
	aead gcm.AEAD
	iv   [gcm.NonceSize]byte
}

// newKey makes the key of an epoch (RFC 9001, section 5.1).
func newKey(secret []byte) key {
	return key{
		aead: must(gcm.New(expand(secret, "quic key", gcm.KeySize))),
		iv:   [gcm.NonceSize]byte(expand(secret, "quic iv", gcm.NonceSize)),
	}
}

// putNonce puts the nonce of a packet: the base, with the number xored into its last eight bytes (RFC 9001, section
// 5.3).
func (k *key) putNonce(to *[gcm.NonceSize]byte, number uint64) {
	*to = k.iv
	binary.BigEndian.PutUint64(to[4:], binary.BigEndian.Uint64(to[4:])^number)
}

// ratchet makes the keys of one direction, one after the other. From a later secret no earlier one follows.
type ratchet struct {
	secret []byte
	epoch  uint32 // of the key that next makes
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
		return key{}, fmt.Errorf("the session has sealed %d packets and must be made anew", uint64(maxEpochs)*packetsPerKey)
	}
	k := newKey(r.secret)
	r.secret = expand(r.secret, "quic ku", SecretSize)
	r.epoch++
	return k, nil
}

// headerMask hides the first byte and the number of a packet (RFC 9001, section 5.4.3). Its key is never changed.
type headerMask struct {
	block cipher.Block
	bits  [aes.BlockSize]byte
}

func newMask(secret []byte) headerMask {
	return headerMask{block: must(aes.NewCipher(expand(secret, "quic hp", gcm.KeySize)))}
}

// apply protects the header of a packet, or shows it.
func (m *headerMask) apply(packet []byte) {
	m.block.Encrypt(m.bits[:], packet[sampleOffset:sampleOffset+sampleSize])
	packet[0] ^= m.bits[0] & protectedBits
	number := packet[NumberOffset:HeaderSize]
	binary.BigEndian.PutUint32(number, binary.BigEndian.Uint32(number)^binary.BigEndian.Uint32(m.bits[1:]))
}

// replayWindow is how far behind the newest a packet may arrive: more than twice what a link may have in flight.
const replayWindow = 8192

// ReplayDepth is how many of the newest packets are told from new ones for certain.
const ReplayDepth = replayWindow - 64

// replay tells numbers that have been seen from new ones, in the manner of RFC 6479.
type replay struct {
	bits [replayWindow / 64]uint64
	next uint64 // one past the newest number seen
}

// isFresh reports whether number n has not been seen, as far back as is remembered.
func (r *replay) isFresh(n uint64) bool {
	if n >= r.next {
		return true
	}
	if r.next-n > ReplayDepth {
		return false
	}
	return r.bits[n/64%uint64(len(r.bits))]&(1<<(n%64)) == 0
}

// markSeen notes number n, which is fresh.
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
