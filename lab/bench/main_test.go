package bench

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
)

// The times are for a machine that measures. One that tests has much else to do.
func TestMain(m *testing.M) {
	connectTime, handshakeTimeout, placeTime, jobTimeout = patiently.Long, patiently.Long, patiently.Long, patiently.Long
	interruptTimeout, silentTime = patiently.Scaled(20*time.Second), patiently.Scaled(30*time.Second)
	goleak.VerifyTestMain(m)
}
