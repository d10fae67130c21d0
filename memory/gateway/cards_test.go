package gateway

import (
	"strings"
	"testing"

	"ringlet/testkit/patiently"
	"ringlet/testkit/transcript"
)

// TestPythonOpens holds that the modules of Python say the same as the headers of C about cards that name no memory
// which the program may see, and that they leave no file open. A gateway is one of several: they try the next one.
func TestPythonOpens(t *testing.T) {
	_, out := start(t, programs["Python"](t, "cards"), t.TempDir())
	said := patiently.Receive(t, out, "the program does not end")
	if !strings.Contains(said, "ring, a link") {
		t.Fatal(said)
	}
	transcript.Expect(t, "testdata/cards.golden", said)
}
