package quic

// The way of a handshake:
//
//	1 mustVerifyAddress (quic-go's listener)  beyond 64 that have not proved their address, everybody must: Retry
//	2 admit             (quic-go's listener)  too many half-open, in all or from one host: refused, nothing is kept
//	3 release           (parallel)            made or failed: there is room for another
//
// Whoever forges the address of a packet never sees the Retry, so all forgers together hold maxUnverified places, and a
// peer comes in beside them by one more round trip. Whoever answers from an address of its own holds places of that
// host alone.

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

// Half-open handshakes. Each takes four goroutines and about 40 kB (quic-go v0.65.0, 2026-11-22) until it is made,
// fails, or Config.IdleTimeout is over.
const (
	// maxUnverified may be half-open without having proved their address: at 2.5 MB and 256 goroutines a listener may
	// stay for ever.
	maxUnverified = 64
	// maxHalfOpen may be half-open that have: a view's members dial each other all at once.
	maxHalfOpen = 1024
	// maxHalfOpenPerHost of one address: hundreds of nodes on one host dial again (redialInterval) if they meet this.
	maxHalfOpenPerHost = 256
)

// handshakeLimiter bounds half-open handshakes and tells of those that failed.
type handshakeLimiter struct {
	log          *slog.Logger
	verifiedGate connlimit.Gate
	logLimiter   connlimit.LogLimiter

	// atomic
	unverifiedCount atomic.Int64
	stats           HandshakeStats
}

// HandshakeStats counts peers that did not come in, and those that were put out with their certificate.
type HandshakeStats struct {
	HandshakesRefused    uint64 `help:"peers whose handshake failed: another authority, no certificate, junk"`
	HandshakesTurnedAway uint64 `help:"handshakes that did not begin, because too many were half-open"`
	RetriesSent          uint64 `count:"addresses_asked" help:"packets answered by asking for a proof of the address (QUIC Retry)"`
	HellosRefused        uint64 `help:"peers that proved who they are, and said no hello or one that is too long"`
	CertificatesExpired  uint64 `count:"certificates_ended" help:"links that were ended because the peer's certificate had"`
}

func newHandshakeLimiter(log *slog.Logger) *handshakeLimiter {
	return &handshakeLimiter{
		log:          log,
		verifiedGate: connlimit.Gate{MaxTotal: maxHalfOpen, MaxPerHost: maxHalfOpenPerHost},
		logLimiter:   connlimit.LogLimiter{Burst: connlimit.Burst},
	}
}

// mustVerifyAddress says whether a peer must prove its address before anything is kept of it.
func (d *handshakeLimiter) mustVerifyAddress(net.Addr) bool {
	if d.unverifiedCount.Load() < maxUnverified {
		return false
	}
	increment(&d.stats.RetriesSent)
	if unreported, yes := d.logLimiter.Allow("asked", time.Now()); yes {
		d.log.Warn("many handshakes are half-open: whoever dials must prove its address first",
			"half_open", maxUnverified, "unreported", unreported)
	}
	return true
}

// admit lets a handshake begin, or says why it may not. What it returns is to be called once, when the handshake is
// over.
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

// recordFailure counts a handshake that came to nothing.
func (d *handshakeLimiter) recordFailure(from net.Addr, why error) {
	increment(&d.stats.HandshakesRefused)
	d.warn(failureKind(why), connlimit.HostOf(from), "a handshake failed", why, slog.Any("remote", from))
}

// failureKind keeps silence, of which a flood is made, apart from refusals, of which each may be a node with a wrong
// certificate.
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

// close tells how much was not told.
func (d *handshakeLimiter) close() { d.logLimiter.LogUnreported(d.log.With("of", "handshakes")) }
