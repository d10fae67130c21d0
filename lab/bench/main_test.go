package bench

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
)

// The times are for a machine that measures. One that tests has much else to do.
func TestMain(m *testing.M) {
	connectTime, meetTime, placeTime, jobPatience = patiently.Long, patiently.Long, patiently.Long, patiently.Long
	ringTime, silentTime = patiently.Scaled(20*time.Second), patiently.Scaled(30*time.Second)
	goleak.VerifyTestMain(m)
}
