package doctor

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write testdata/*.txt anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
