package node

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"ringlet/barrier"
	"ringlet/builderunit/sink"
	"ringlet/shmem"
	"ringlet/source"
	"ringlet/tagnet"
	"ringlet/transport"
)

func TestPartOf(t *testing.T) {
	for want, tc := range map[string]struct {
		where string
		err   error
	}{
		"transport":     {"readout unit", &transport.LinkError{Peer: "n1", Cause: io.EOF}},
		"barrier":       {"readout unit", &barrier.TimeoutError{Missing: []int{1}}},
		"scheduler":     {"builder unit", tagnet.ErrGone},
		"output":        {"units", &sink.SinkError{Cause: io.ErrShortWrite}},
		"input":         {"readout unit", source.ErrFileChanged},
		"memory":        {"configuration", &shmem.SegmentError{Err: shmem.ErrNoSpace}},
		"readout_unit":  {"readout unit", io.EOF},
		"configuration": {"configuration", io.EOF},
		"links":         {"units", errLinksDown},
	} {
		if got := subsystemOf(tc.where, fmt.Errorf("while it was tried: %w", tc.err)); got != want {
			t.Errorf("%s of %s is of the part %q", tc.err, tc.where, got)
		}
	}
	// What is known where it comes up is not guessed by a type.
	missing := &subsystemError{"input", io.ErrUnexpectedEOF}
	if got := subsystemOf("units", missing); got != "input" || !errors.Is(missing, io.ErrUnexpectedEOF) ||
		missing.Error() != io.ErrUnexpectedEOF.Error() {
		t.Errorf("%v is of the part %q", missing, got)
	}
}
