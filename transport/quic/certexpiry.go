package quic

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// closeAtCertificateExpiry ends a connection when the peer's certificate expires: TLS checks it in the handshake alone,
// and a link may live much longer. A peer that has got a new certificate can connect again.
func (n *Network) closeAtCertificateExpiry(qc *quicgo.Conn, name string) {
	end := chainsExpiry(qc.ConnectionState().TLS.VerifiedChains)
	if end.IsZero() {
		return // no verified chain: Config.PeerName refuses the peer
	}
	timer := time.AfterFunc(time.Until(end), func() {
		why := fmt.Sprintf("the certificate of %s was good until %s: give %s a new one, and configure again",
			name, end.Format(time.RFC3339), name)
		increment(&n.handshakes.stats.CertificatesExpired)
		if unreported, yes := n.handshakes.logLimiter.Allow("ended", time.Now()); yes {
			n.log.Warn("a link is ended", "peer", name, "remote", qc.RemoteAddr(), "reason", why, "unreported", unreported)
		}
		_ = qc.CloseWithError(0, why)
	})
	context.AfterFunc(qc.Context(), func() { timer.Stop() })
}

// chainsExpiry is when the last of the peer's verified chains expires; a chain expires with its first certificate.
func chainsExpiry(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		var end time.Time
		for _, c := range chain {
			if end.IsZero() || c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}
