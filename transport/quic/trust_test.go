package quic

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/node/certs"
	"ringlet/testkit/logged"
	"ringlet/transport"
)

// TestWhoIsNotTrusted: each handshake that fails is an error that names the reason at the dialler, and at the listener,
// which quic-go does not tell, a count and a line that names the address and the reason.
func TestWhoIsNotTrusted(t *testing.T) {
	otherCA, err := certs.NewCA(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	impostor, err := otherCA.Issue("a", []string{"127.0.0.1"}, certs.RoleNode, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	good := issue(t, "a")
	for _, tc := range []struct {
		name   string
		dialer func() Config
		to     string
		why    certs.Reason
		log    string
	}{
		{"another authority", func() Config {
			cfg := configOf(impostor)
			trusting := good.Client("b") // of b, but shows its own certificate
			trusting.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &impostor.Server().Certificates[0], nil
			}
			cfg.ClientTLS = func(string) *tls.Config { return trusting }
			return cfg
		}, "b", certs.AnotherCA, "unknown authority"},
		{"authority of the listener unknown", func() Config { return configOf(impostor) }, "b", certs.AnotherCA,
			"bad certificate"},
		{"no certificate", func() Config {
			cfg := configOf(good)
			bare := good.Client("b")
			bare.Certificates, bare.GetClientCertificate = nil, nil
			cfg.ClientTLS = func(string) *tls.Config { return bare }
			return cfg
		}, "b", certs.NoCertificate, "provide a certificate"},
		{"wrong name", func() Config { return configOf(good) }, "c", certs.WrongName, "bad certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := &logged.Buffer{}
			cfg := configOf(issue(t, "b"))
			cfg.Log = log.Logger()
			b, a := listen(t, cfg), listen(t, tc.dialer())
			_, _, err := a.Dial(within(t), tc.to, b.Addr().String(), []byte("hello of a"))
			var handshake *transport.HandshakeError
			if !errors.As(err, &handshake) || handshake.Peer != tc.to || handshake.Addr != b.Addr().String() {
				t.Fatalf("the dialler got %v", err)
			}
			var refused *certs.RefusedError
			if !errors.As(certs.Explain(err), &refused) || refused.Why != tc.why {
				t.Errorf("explained as %v, want %s", certs.Explain(err), tc.why)
			}
			eventually(t, "the listener's count", func() bool { return b.Stats().HandshakesRefused == 1 })
			eventually(t, "the listener's line", func() bool { return log.String() != "" })
			if !strings.Contains(log.String(), tc.log) {
				t.Errorf("the listener's line does not say %q: %s", tc.log, log)
			}
			if !strings.Contains(log.String(), "remote="+a.Addr().String()) {
				t.Errorf("the listener's line does not name %v: %s", a.Addr(), log)
			}
			if s := b.Stats(); s.HellosRefused != 0 {
				t.Errorf("counted as %+v", s)
			}
		})
	}
}

func TestAnotherProtocolIsRefused(t *testing.T) {
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
	client := issue(t, "a").Client("b")
	client.NextProtos = []string{"h3"}
	_, err := a.tr.Dial(within(t), b.Addr(), client, a.quicConfig())
	var tr *quicgo.TransportError
	if !errors.As(err, &tr) || !tr.ErrorCode.IsCryptoError() {
		t.Errorf("%v", err)
	}
	eventually(t, "the count", func() bool { return b.Stats().HandshakesRefused == 1 })
}

// TestConnectionsThatEndAreNoFailedHandshakes: only those that never were count.
func TestConnectionsThatEndAreNoFailedHandshakes(t *testing.T) {
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
	for range 3 {
		ca, cb := connectPair(t, a, b, "b")
		_ = ca.Close("done")
		_, _ = cb.Recv(make([][]byte, 1))
	}
	ca, _ := connectPair(t, a, b, "b")
	_ = b.Close()
	_, _ = ca.Recv(make([][]byte, 1))
	for _, n := range []*Network{a, b} {
		if s := n.Stats(); s.HandshakesRefused+s.HellosRefused != 0 {
			t.Errorf("%+v", s)
		}
	}
}
