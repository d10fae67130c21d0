package quic

import (
	"testing"
	"time"

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
		run.moves(t, 1)
	}
	run.end(t)
	for i, e := range ends {
		if err := <-e.down; !silence(err) {
			t.Errorf("end %d is down: %v", i, err)
		}
	}
}
