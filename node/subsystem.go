package node

import (
	"errors"
	"strings"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/shmem"
	"ringlet/source"
	"ringlet/tagnet"
	"ringlet/transport"
)

// Stable words for subsystems. An error whose type names none has the word of the place where it occurred.
const (
	SubsystemTransport = "transport"
	subsystemBarrier   = "barrier"
	SubsystemScheduler = "scheduler"
	SubsystemOutput    = "output"
	subsystemInput     = "input"
	subsystemMemory    = "memory"
	subsystemLinks     = "links" // the links are down, for a reason that a node has reported before
	SubsystemBuilder   = "builder_unit"
	subsystemDecision  = "decision_unit"
	SubsystemData      = "data" // of a readout unit, which the unit that checks the data names
	SubsystemConfig    = "configuration"
)

// subsystemOf is the stable word for an error's subsystem: by its type, or else by where it occurred.
func subsystemOf(where string, err error) string {
	var named *subsystemError
	var link *transport.LinkError
	var late *barrier.TimeoutError
	var out *sink.SinkError
	var bad *source.BadRecordError
	var segment *shmem.SegmentError
	var data *builderunit.DataError
	var small *builderunit.SlotTooSmallError
	switch {
	case errors.As(err, &named):
		return named.subsystem
	case errors.As(err, &data):
		return SubsystemData
	case errors.As(err, &small):
		return SubsystemConfig
	case errors.Is(err, errLinksDown):
		return subsystemLinks
	case errors.As(err, &link):
		return SubsystemTransport
	case errors.As(err, &late):
		return subsystemBarrier
	case errors.Is(err, tagnet.ErrGone):
		return SubsystemScheduler
	case errors.As(err, &out):
		return SubsystemOutput
	case errors.As(err, &bad), errors.Is(err, source.ErrFileChanged):
		return subsystemInput
	case errors.As(err, &segment):
		return subsystemMemory
	}
	return strings.ReplaceAll(where, " ", "_")
}

// subsystemError is an error with its subsystem.
type subsystemError struct {
	subsystem string
	err       error
}

func (e *subsystemError) Error() string { return e.err.Error() }
func (e *subsystemError) Unwrap() error { return e.err }
