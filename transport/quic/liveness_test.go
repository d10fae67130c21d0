package quic

import (
	"testing"
	"time"

	"ringlet/testkit/patiently"
	"ringlet/transport"
)

// TestBulkKeepsALinkAlive: where all packets of quic-go get lost and the bulk arrives, the peers live; when the bulk
// ends too, both ends hear of nobody, and say so in time.
func TestBulkKeepsALinkAlive(t *testing.T) {
	t.Parallel()
	ends, r := behindRelay(t, transport.CarrierQUIC, 0, func(c *Config) { c.IdleTimeout = briefIdle })
	run := flood(t, ends)
	r.bulk.Store(true)
	for from := time.Now(); time.Since(from) < 5*briefIdle/2; {
		run.awaitRounds(t, 1)
	}
	run.finish(t)
	for i, e := range ends {
		if err := patiently.Receive(t, e.down, "the link is not down"); !isSilenceError(err) {
			t.Errorf("end %d is down: %v", i, err)
		}
	}
}

// TestSilenceEndsInTime: whenever the last packet came between two looks, its sender is taken for dead no later than
// the time that is borne, and no look earlier; quic-go asks for an answer at least as often as somebody looks.
func TestSilenceEndsInTime(t *testing.T) {
	cfg := Config{}
	cfg.setDefaults()
	every := cfg.IdleTimeout / silenceChecks
	network := &Network{cfg: cfg}
	network.SetIdleTimeout(cfg.IdleTimeout)
	c := network.quicConfig()
	if c.KeepAlivePeriod > every || c.KeepAlivePeriod > c.MaxIdleTimeout/2 || c.MaxIdleTimeout <= cfg.IdleTimeout {
		t.Errorf("asked every %v, looked every %v; quic-go gives up after %v", c.KeepAlivePeriod, every,
			c.MaxIdleTimeout)
	}
	for last := range 3 { // looks until the last packet
		ear := silenceDetector{}
		for look := range last + 1 {
			if ear.observe(uint64(look + 1)) {
				t.Fatal("it lives")
			}
		}
		n := 1
		for ; !ear.observe(uint64(last + 1)); n++ {
		}
		if longest := time.Duration(n+1) * every; longest > cfg.IdleTimeout || n != silenceChecks-1 {
			t.Errorf("dead after %d looks, up to %v, not %v", n, longest, cfg.IdleTimeout)
		}
	}
}
