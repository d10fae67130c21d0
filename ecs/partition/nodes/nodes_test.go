package nodes

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Whoever reads that a command failed reads its name as it is typed.
func TestCommandsAreNamedAsTyped(t *testing.T) {
	for c, name := range nodev1.Command_name {
		e := &commandError{Node: "n0", Command: nodev1.Command(c), Err: status.Error(codes.Aborted, "the disk is full")}
		if text := e.Error(); strings.Contains(text, "COMMAND") ||
			!strings.Contains(strings.ToUpper(text), strings.TrimPrefix(name, "COMMAND_")) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
