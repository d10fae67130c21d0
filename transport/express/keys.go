package express

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"ringlet/transport/gcm"
)

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
