package certs

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ringlet/internal/safeopen"
)

// Files of a directory of keys. A node needs caCert, its own pair and the gossip key; caKey stays on the host where
// certificates are issued.
const (
	caCert     = "ca.crt"
	caKey      = "ca.key"
	GossipFile = "gossip.key"
	certSuffix = ".crt"
	keySuffix  = ".key"
)

// gossipKeySize in bytes selects AES-256.
const gossipKeySize = 32

// Save writes the authority into dir, which it makes if need be. It does not overwrite an existing authority: the error
// is then fs.ErrExist.
func (ca *CA) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return savePair(filepath.Join(dir, caCert), filepath.Join(dir, caKey), ca.cert, ca.key, false)
}

// LoadCA reads what Save has written.
func LoadCA(dir string) (*CA, error) {
	cert, key, err := loadPair(filepath.Join(dir, caCert), filepath.Join(dir, caKey))
	if err != nil {
		return nil, err
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("%s is not the certificate of an authority", filepath.Join(dir, caCert))
	}
	return &CA{cert: cert, key: key}, nil
}

// Save writes the certificate, its key and the authority's certificate into dir. It overwrites an older pair of the
// same name and role.
func (id *Identity) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, m := filepath.Join(dir, caCert), id.material()
	switch there, err := loadCerts(ca); {
	case errors.Is(err, fs.ErrNotExist):
		if err := writeFile(ca, pemCert(m.ca), true); err != nil {
			return err
		}
	case err != nil:
		return err
	case !slices.ContainsFunc(there, m.ca.Equal):
		return fmt.Errorf("%s is another authority than the one that issued %s", ca, id.Name)
	}
	base := filepath.Join(dir, id.Name)
	if old, err := loadCert(base + certSuffix); err == nil {
		if was, err := identityOf(old); err == nil && was.Role != id.Role {
			return fmt.Errorf("%s is the certificate of a %s: another role needs another name", base+certSuffix, was.Role)
		}
	}
	key, ok := m.pair.PrivateKey.(crypto.Signer)
	if !ok {
		return fmt.Errorf("the key of %s cannot be saved: a %T cannot sign", id.Name, m.pair.PrivateKey)
	}
	return savePair(base+certSuffix, base+keySuffix, m.pair.Leaf, key, true)
}

// Load reads the identity of the node of that name from dir. It checks that the certificate has this name, fits its
// key, and was issued by an authority in ca.crt, which may hold several: all are trusted. The handshake checks whether
// it has expired. When the files change, they are read again (see Watch).
func Load(dir, name string) (*Identity, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	files := &watchedFiles{dir: dir, name: name}
	files.stamps = files.stat() // before the files are read: a change in between is read once more
	id, err := loadIdentity(dir, name)
	if err != nil {
		return nil, err
	}
	id.files = files
	return id, nil
}

func loadIdentity(dir, name string) (*Identity, error) {
	cas, err := loadCerts(filepath.Join(dir, caCert))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name+certSuffix)
	cert, key, err := loadPair(file, filepath.Join(dir, name+keySuffix))
	if err != nil {
		return nil, err
	}
	issuer := slices.IndexFunc(cas, func(ca *x509.Certificate) bool {
		err = cert.CheckSignatureFrom(ca)
		return err == nil
	})
	if issuer < 0 {
		return nil, &RefusedError{
			Why:    AnotherCA,
			Detail: fmt.Sprintf("%s was not issued by %s", file, filepath.Join(dir, caCert)),
			Cause:  err,
		}
	}
	id, err := newIdentity(cert, key, cas[issuer], cas...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if id.current.Load().revoked, err = loadRevoked(dir); err != nil {
		return nil, err
	}
	if id.Name != name {
		return nil, &RefusedError{Why: WrongName, Detail: fmt.Sprintf("%s is the certificate of %s", file, id.Name)}
	}
	return id, nil
}

// NewGossipKey returns gossipKeySize random bytes.
func NewGossipKey() []byte {
	key := make([]byte, gossipKeySize)
	rand.Read(key) // never fails (crypto/rand)
	return key
}

// SaveGossipKey writes the key into dir as hexadecimal digits. It does not overwrite an existing key: fs.ErrExist.
func SaveGossipKey(dir string, key []byte) error {
	if len(key) != gossipKeySize {
		return fmt.Errorf("a gossip key has %d bytes, not %d", gossipKeySize, len(key))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, GossipFile), []byte(hex.EncodeToString(key)+"\n"), false)
}

// LoadGossipKey reads what SaveGossipKey has written.
func LoadGossipKey(dir string) ([]byte, error) {
	file := filepath.Join(dir, GossipFile)
	text, err := safeopen.ReadFile(file, safeopen.MaxTextSize)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != gossipKeySize {
		return nil, fmt.Errorf("%s does not hold %d hexadecimal digits", file, 2*gossipKeySize)
	}
	return key, nil
}

func pemCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// savePair writes the key first, so that no process sees a certificate without its key.
func savePair(certFile, keyFile string, cert *x509.Certificate, key crypto.Signer, overwrite bool) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("%s: %w", keyFile, err)
	}
	if err := writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), overwrite); err != nil {
		return err
	}
	return writeFile(certFile, pemCert(cert), overwrite)
}

// loadCerts reads all certificates of a file; there is at least one.
func loadCerts(file string) (all []*x509.Certificate, err error) {
	text, err := safeopen.ReadFile(file, safeopen.MaxTextSize)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			break // a key after the certificates is ignored
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s does not begin with a PEM block %q", file, "CERTIFICATE")
	}
	return all, nil
}

func loadCert(file string) (*x509.Certificate, error) {
	der, err := loadPEM(file, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cert, nil
}

func loadPair(certFile, keyFile string) (*x509.Certificate, crypto.Signer, error) {
	cert, err := loadCert(certFile)
	if err != nil {
		return nil, nil, err
	}
	der, err := loadPEM(keyFile, "PRIVATE KEY")
	if err != nil {
		return nil, nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("%s holds a key that cannot sign", keyFile)
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("%s is not the key of %s", keyFile, certFile)
	}
	return cert, key, nil
}

func loadPEM(file, kind string) ([]byte, error) {
	text, err := safeopen.ReadFile(file, safeopen.MaxTextSize)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s does not begin with a PEM block %q", file, kind)
	}
	return block.Bytes, nil
}

// writeFile makes a 0600 file that appears whole or not at all. Without overwrite it keeps an existing file:
// fs.ErrExist.
func writeFile(file string, content []byte, overwrite bool) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeIfThere(tmp.Name())) }()
	if _, err := tmp.Write(content); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if overwrite {
		return os.Rename(tmp.Name(), file)
	}
	return os.Link(tmp.Name(), file) // fails if file exists
}

func removeIfThere(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
