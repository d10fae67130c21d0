package shmring

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv names the role that this test's binary plays when it is started as another process.
const childEnv = "SHMRING_TEST_CHILD"

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
