package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"strings"

	"ringlet/internal/safeopen"
)

// revokedFile is the file with the serial numbers of certificates that are revoked. It is beside the authority's
// certificate, and may be missing.
const revokedFile = "revoked"

// revocationList has the revoked serial numbers, as decimal text.
type revocationList map[string]bool

// loadRevoked reads the revoked file of a directory: a number on each line in hexadecimal digits, as openssl x509
// -serial prints it, with or without colons. Text after # is a comment.
func loadRevoked(dir string) (revocationList, error) {
	file := filepath.Join(dir, revokedFile)
	text, err := safeopen.ReadFile(file, safeopen.MaxTextSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	all := revocationList{}
	at := 0
	for line := range strings.Lines(string(text)) {
		at++
		word, _, _ := strings.Cut(line, "#")
		word = strings.TrimPrefix(strings.TrimSpace(word), "serial=")
		if word == "" {
			continue
		}
		n, ok := new(big.Int).SetString(strings.ReplaceAll(word, ":", ""), 16)
		if !ok || n.Sign() <= 0 {
			return nil, fmt.Errorf("%s, line %d: %q is no serial number: write the digits that openssl x509 -noout -serial "+
				"prints", file, at, word)
		}
		all[n.String()] = true
	}
	return all, nil
}

// check refuses a peer with a revoked certificate in its chain.
func (r revocationList) check(peer Peer, state tls.ConnectionState) error {
	for _, chain := range state.VerifiedChains {
		for _, cert := range chain {
			if r[cert.SerialNumber.String()] {
				return &RefusedError{Why: Revoked, Detail: fmt.Sprintf("the certificate of %s was revoked (serial number %X): "+
					"give %s a new one", peer.Name, cert.SerialNumber, peer.Name)}
			}
		}
	}
	return nil
}
