package node_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A probe that memberlist has under way when it is shut down waits for its answer as long as it would have otherwise, half a
// second here, and offers no way to be told; then it ends by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}
