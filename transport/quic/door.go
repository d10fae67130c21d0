package quic

// The way of a handshake:
//
//	1 ask    (quic-go's listener)  beyond 64 that have not proved their address, everybody must: Retry
//	2 enter  (quic-go's listener)  too many half-open, in all or from one host: refused, nothing is kept
//	3 ended  (parallel)            made or failed: there is room for another
//
// Whoever forges the address of a packet never sees the Retry, so all forgers together hold unprovedMost places, and a
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
	// unprovedMost may be half-open without having proved their address: at 2.5 MB and 256 goroutines a listener may
	// stay for ever.
	unprovedMost = 64
	// halfOpenMost may be half-open that have: a view's members dial each other all at once.
	halfOpenMost = 1024
	// halfOpenPerHost of one address: hundreds of nodes on one host dial again (redialEvery) if they meet this.
	halfOpenPerHost = 256
)

// door bounds half-open handshakes and tells of those that failed.
type door struct {
	log    *slog.Logger
	proved connlimit.Gate
	seldom connlimit.Log

	// atomic
	unproved atomic.Int64
	count    DoorStats
}

// DoorStats counts peers that did not come in, and those that were put out with their certificate.
type DoorStats struct {
	HandshakesRefused    uint64 `help:"peers whose handshake failed: another authority, no certificate, junk"`
	HandshakesTurnedAway uint64 `help:"handshakes that did not begin, because too many were half-open"`
	AddressesAsked       uint64 `help:"packets answered by asking for a proof of the address (QUIC Retry)"`
	HellosRefused        uint64 `help:"peers that proved who they are, and said no hello or one that is too long"`
	CertificatesEnded    uint64 `help:"links that were ended because the peer's certificate had"`
}

func newDoor(log *slog.Logger) *door {
	return &door{
		log:    log,
		proved: connlimit.Gate{Total: halfOpenMost, PerHost: halfOpenPerHost},
		seldom: connlimit.Log{Burst: connlimit.Burst},
	}
}

// ask says whether a peer must prove its address before anything is kept of it.
func (d *door) ask(net.Addr) bool {
	if d.unproved.Load() < unprovedMost {
		return false
	}
	tick(&d.count.AddressesAsked)
	if untold, yes := d.seldom.Tell("asked", time.Now()); yes {
		d.log.Warn("many handshakes are half-open: whoever dials must prove its address first",
			"half_open", unprovedMost, "untold", untold)
	}
	return true
}

// enter lets a handshake begin, or says why it may not. What it returns is to be called once, when the handshake is
// over.
func (d *door) enter(from net.Addr, proved bool) (leave func(), err error) {
	if !proved {
		d.unproved.Add(1)
		return func() { d.unproved.Add(-1) }, nil
	}
	host := connlimit.HostOf(from)
	place, err := d.proved.Enter(host, nil)
	if err != nil {
		tick(&d.count.HandshakesTurnedAway)
		d.tell("turned away", host, "a handshake was refused", err)
		return nil, err
	}
	return place.Leave, nil
}

// failed counts a handshake that came to nothing.
func (d *door) failed(from net.Addr, why error) {
	tick(&d.count.HandshakesRefused)
	d.tell(kindOf(why), connlimit.HostOf(from), "a handshake failed", why, slog.Any("remote", from))
}

// kindOf keeps silence, of which a flood is made, apart from refusals, of which each may be a node with a wrong
// certificate.
func kindOf(err error) string {
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

func (d *door) tell(kind string, host netip.Addr, what string, why error, more ...any) {
	untold, yes := d.seldom.Tell(kind, time.Now())
	if !yes {
		return
	}
	if len(more) == 0 {
		more = []any{slog.Any("remote", host)}
	}
	d.log.Warn(what, append(more, "reason", why, "untold", untold)...)
}

// close tells how much was not told.
func (d *door) close() { d.seldom.TellRest(d.log.With("of", "handshakes")) }
