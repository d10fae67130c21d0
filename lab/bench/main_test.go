package bench

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
)

// The times are for a machine that measures. One that tests has much else to do.
func TestMain(m *testing.M) {
	for _, timeout := range []*time.Duration{&connectTimeout, &handshakeTimeout, &placementTimeout, &awaitNearTimeout} {
		*timeout = patiently.LongTimeout
	}
	interruptTimeout, peerSilenceTimeout = patiently.Scaled(20*time.Second), patiently.Scaled(30*time.Second)
	goleak.VerifyTestMain(m)
}
