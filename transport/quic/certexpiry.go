package quic

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// closeAtCertificateExpiry ends a connection with the certificate by which its peer is known: TLS looks at it in the
// handshake, and a link lives for as long as its configuration. A peer that has a new one by then is let in with it.
func (n *Network) closeAtCertificateExpiry(qc *quicgo.Conn, name string) {
	end := chainsExpiry(qc.ConnectionState().TLS.VerifiedChains)
	if end.IsZero() {
		return // nothing vouches for the peer: that is for Config.PeerName to refuse
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

// chainsExpiry is when the last of the chains that vouch for a peer ends, which is when the first of its certificates
// does.
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
