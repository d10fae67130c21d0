package quic

import (
	"errors"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/node/certs"
	"ringlet/testkit/logged"
	"ringlet/transport"
)

// TestLinksEndWithTheCertificate: a link is ended with a sentence when the certificate of its peer has ended, whoever
// dialled, and a peer with a new one is let in.
func TestLinksEndWithTheCertificate(t *testing.T) {
	t.Parallel()
	ca, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	short := func(name string) *certs.Identity {
		// Long enough for a handshake on a busy machine.
		id, err := ca.Issue(name, []string{"127.0.0.1"}, certs.RoleNode, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	type pair struct {
		a, b   *Network
		ca, cb transport.Conn
		log    *logged.Buffer
	}
	made := func(idA, idB *certs.Identity) (p pair) {
		p.log = &logged.Buffer{}
		cfgA, cfgB := configOf(idA), configOf(idB)
		cfgA.Log, cfgB.Log = p.log.Logger(), p.log.Logger()
		p.a, p.b = listen(t, cfgA), listen(t, cfgB)
		p.ca, p.cb = connectPair(t, p.a, p.b, "b")
		return p
	}
	dialler, listener := made(short("a"), issue(t, "b")), made(issue(t, "a"), short("b"))
	for who, p := range map[string]pair{"the dialler's": dialler, "the listener's": listener} {
		for _, c := range []transport.Conn{p.ca, p.cb} {
			_, err := c.Recv(make([][]byte, 1))
			var ended *quicgo.ApplicationError
			if !errors.As(err, &ended) || !strings.Contains(ended.ErrorMessage, "was good until") {
				t.Errorf("%s: the link ends with: %v", who, err)
			}
		}
		n := p.a.Stats().CertificatesExpired + p.b.Stats().CertificatesExpired
		if n != 1 || !strings.Contains(p.log.String(), "a link is ended") {
			t.Errorf("%s: %d connections ended:\n%s", who, n, p.log)
		}
	}
	connectPair(t, listen(t, configOf(issue(t, "a"))), dialler.b, "b")
}
