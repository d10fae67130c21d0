package local

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv names the part that a re-executed test binary plays in a test between processes.
const childEnv = "LOCAL_TEST_CHILD"

// children are the parts, by name.
var children = map[string]func() error{}

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := children[role](); err != nil {
			_, _ = os.Stderr.WriteString(role + ": " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
