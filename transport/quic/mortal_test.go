package quic

import (
	"errors"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/node/certs"
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
		id, err := ca.Issue(name, []string{"127.0.0.1"}, certs.RoleNode, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, who := range []string{"the dialler's", "the listener's"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel() // and its certificate begins only now
			log := &logged{}
			cfgA, cfgB := configOf(issue(t, "a")), configOf(short("b"))
			if who == "the dialler's" {
				cfgA, cfgB = configOf(short("a")), configOf(issue(t, "b"))
			}
			cfgA.Log, cfgB.Log = log.logger(), log.logger()
			a, b := listen(t, cfgA), listen(t, cfgB)
			ca, cb := linked(t, a, b, "b")
			for _, c := range []interface{ Recv([][]byte) (int, error) }{ca, cb} {
				_, err := c.Recv(make([][]byte, 1))
				var ended *quicgo.ApplicationError
				if !errors.As(err, &ended) || !strings.Contains(ended.ErrorMessage, "was good until") {
					t.Errorf("the link ends with: %v", err)
				}
			}
			n := a.Stats().CertificatesEnded + b.Stats().CertificatesEnded
			if n != 1 || !strings.Contains(log.String(), "a link is ended") {
				t.Errorf("%d connections ended:\n%s", n, log)
			}
			if who == "the dialler's" {
				again := listen(t, configOf(issue(t, "a")))
				linked(t, again, b, "b")
			}
		})
	}
}
