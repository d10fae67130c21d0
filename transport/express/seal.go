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
	"encoding/binary"

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
