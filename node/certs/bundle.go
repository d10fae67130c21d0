package certs

import (
	"crypto"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// A bundle is everything that a node needs to be part of a cluster, in one piece, so that a parent can pass it to a
// child through a pipe and no key is ever in a file: u32 length (big-endian) · PEM blocks of the authority's
// certificate, the node's certificate, its key and the gossip key.
const (
	pemTypeGossip = "RINGLET GOSSIP KEY"
	// maxBundleBytes bounds what is read: the blocks of an ECDSA pair take 2 kB.
	maxBundleBytes = 64 << 10
)

// errBundle says that the data read are no bundle.
var errBundle = errors.New("no keys were received, or the data are no bundle of keys")

// WriteBundle writes the node's identity and the gossip key as one bundle.
func (id *Identity) WriteBundle(w io.Writer, gossip []byte) error {
	m := id.material()
	key, ok := m.pair.PrivateKey.(crypto.Signer)
	if !ok {
		return fmt.Errorf("the key of %s cannot be written: a %T cannot sign", id.Name, m.pair.PrivateKey)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("the key of %s: %w", id.Name, err)
	}
	out := make([]byte, 4)
	out = append(out, pemCert(m.ca)...)
	out = append(out, pemCert(m.pair.Leaf)...)
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemTypeGossip, Bytes: gossip})...)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err = w.Write(out)
	return err
}

// ReadBundle reads one bundle, and no byte after it. The error is or wraps errBundle if the data are no bundle.
func ReadBundle(r io.Reader) (*Identity, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errBundle, err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxBundleBytes {
		return nil, nil, fmt.Errorf("%w: it would have %d bytes", errBundle, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errBundle, err)
	}
	var blocks [4][]byte
	for i, kind := range []string{"CERTIFICATE", "CERTIFICATE", "PRIVATE KEY", pemTypeGossip} {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != kind {
			return nil, nil, fmt.Errorf("%w: block %d is not %q", errBundle, i, kind)
		}
		blocks[i], text = block.Bytes, rest
	}
	ca, caErr := x509.ParseCertificate(blocks[0])
	cert, certErr := x509.ParseCertificate(blocks[1])
	parsed, keyErr := x509.ParsePKCS8PrivateKey(blocks[2])
	if err := errors.Join(caErr, certErr, keyErr); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errBundle, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok || len(blocks[3]) != gossipKeySize {
		return nil, nil, fmt.Errorf("%w: its keys are of another kind", errBundle)
	}
	if err := cert.CheckSignatureFrom(ca); err != nil {
		return nil, nil, &RefusedError{Why: AnotherCA,
			Detail: "the certificate was not issued by the authority that came with it", Cause: err}
	}
	id, err := newIdentity(cert, key, ca)
	return id, blocks[3], err
}
