package quic

// The way of a handshake:
//
//	1 mustVerifyAddress (quic-go's listener)  with 64 half-open from unproved addresses, further peers get a Retry
//	2 admit             (quic-go's listener)  too many half-open, in all or from one host: refused, nothing is stored
//	3 release           (parallel)            complete or failed: its place is free
//
// An attacker with forged addresses never sees the Retry. All such attackers together hold maxUnverified places, and a
// peer gets in beside them with one more round trip. An attacker who answers from a true address holds only the places
// of that host.

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/internal/connlimit"
)

// Limits of half-open handshakes. Each takes four goroutines and about 40 kB (quic-go v0.65.0, 2026-11-22) until it is
// complete, fails, or Config.IdleTimeout is over.
const (
	// maxUnverified bounds those without a proved address: a listener can stand 2.5 MB and 256 goroutines for ever.
	maxUnverified = 64
	// maxHalfOpen bounds those with a proved address: the members of a view dial each other all at once.
	maxHalfOpen = 1024
	// maxHalfOpenPerHost bounds those of one address: if hundreds of nodes on one host exceed it, they dial again after
	// redialInterval.
	maxHalfOpenPerHost = 256
)

// handshakeLimiter bounds half-open handshakes, and logs those that failed.
type handshakeLimiter struct {
	log          *slog.Logger
	verifiedGate connlimit.Gate
	logLimiter   connlimit.LogLimiter

	// atomic
	unverifiedCount atomic.Int64
	stats           HandshakeStats
}

// HandshakeStats counts peers that were refused, and links that ended when a certificate expired.
type HandshakeStats struct {
	HandshakesRefused    uint64 `help:"failed handshakes: another authority, no certificate, junk"`
	HandshakesTurnedAway uint64 `help:"handshakes not begun: too many were half-open"`
	RetriesSent          uint64 `count:"addresses_asked" help:"packets answered by asking for a proof of the address (QUIC Retry)"`
	HellosRefused        uint64 `help:"peers with a proven name and no hello, or too long a one"`
	CertificatesExpired  uint64 `count:"certificates_ended" help:"links ended because the peer's certificate had expired"`
}

func newHandshakeLimiter(log *slog.Logger) *handshakeLimiter {
	return &handshakeLimiter{
		log:          log,
		verifiedGate: connlimit.Gate{MaxTotal: maxHalfOpen, MaxPerHost: maxHalfOpenPerHost},
		logLimiter:   connlimit.LogLimiter{Burst: connlimit.Burst},
	}
}

// mustVerifyAddress reports whether a peer must prove its address before this node stores anything for it.
func (d *handshakeLimiter) mustVerifyAddress(net.Addr) bool {
	if d.unverifiedCount.Load() < maxUnverified {
		return false
	}
	increment(&d.stats.RetriesSent)
	if unreported, yes := d.logLimiter.Allow("asked", time.Now()); yes {
		d.log.Warn("many handshakes are half-open: a peer that dials must prove its address first",
			"half_open", maxUnverified, "unreported", unreported)
	}
	return true
}

// admit admits a handshake, or returns the reason why not. The caller must call leave once, when the handshake is over.
func (d *handshakeLimiter) admit(from net.Addr, proved bool) (leave func(), err error) {
	if !proved {
		d.unverifiedCount.Add(1)
		return func() { d.unverifiedCount.Add(-1) }, nil
	}
	host := connlimit.HostOf(from)
	place, err := d.verifiedGate.Enter(host, nil)
	if err != nil {
		increment(&d.stats.HandshakesTurnedAway)
		d.warn("turned away", host, "a handshake was refused", err)
		return nil, err
	}
	return place.Leave, nil
}

// recordFailure counts and logs a handshake that has failed.
func (d *handshakeLimiter) recordFailure(from net.Addr, why error) {
	increment(&d.stats.HandshakesRefused)
	d.warn(failureKind(why), connlimit.HostOf(from), "a handshake failed", why, slog.Any("remote", from))
}

// failureKind sorts failures for the limits of the log: a flood makes silent ones, while each refusal may be a node
// with a wrong certificate.
func failureKind(err error) string {
	var refused *quicgo.TransportError
	if errors.As(err, &refused) {
		return refused.ErrorCode.String()
	}
	var silent *quicgo.IdleTimeoutError
	var slow *quicgo.HandshakeTimeoutError
	if errors.As(err, &silent) || errors.As(err, &slow) {
		return "silent"
	}
	return "other"
}

func (d *handshakeLimiter) warn(kind string, host netip.Addr, what string, why error, more ...any) {
	unreported, yes := d.logLimiter.Allow(kind, time.Now())
	if !yes {
		return
	}
	if len(more) == 0 {
		more = []any{slog.Any("remote", host)}
	}
	d.log.Warn(what, append(more, "reason", why, "unreported", unreported)...)
}

// close logs how many messages the limit suppressed.
func (d *handshakeLimiter) close() { d.logLimiter.LogUnreported(d.log.With("of", "handshakes")) }
