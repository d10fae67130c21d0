package transport_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"ringlet/testkit/must"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		fmt.Fprintln(os.Stderr, "the victim ends by itself:", beVictim())
		os.Exit(1)
	}
	if os.Getenv(spokeEnv) != "" {
		fmt.Fprintln(os.Stderr, "a peer ends by itself:", beSpoke())
		os.Exit(1)
	}
	must.LimitParallel(8, 4)
	goleak.VerifyTestMain(m)
}
