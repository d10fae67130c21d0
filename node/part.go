package node

import (
	"errors"
	"strings"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/readoutunit/source"
	"ringlet/shmem"
	"ringlet/tagnet"
	"ringlet/transport"
)

// Stable words for parts. An error whose type tells of none goes by where it came up.
const (
	PartTransport = "transport"
	partBarrier   = "barrier"
	PartScheduler = "scheduler"
	PartOutput    = "output"
	partInput     = "input"
	partMemory    = "memory"
	partLinks     = "links" // they are down, for a reason that a node has told before
	PartBuilder   = "builder_unit"
	partDecision  = "decision_unit"
	PartData      = "data" // of a readout unit, which whoever has checked them names
	PartConfig    = "configuration"
)

// partOf is the stable word for the part that an error is of: by its type, or else where it came up.
func partOf(where string, err error) string {
	var known *partError
	var link *transport.LinkError
	var late *barrier.TimeoutError
	var out *sink.SinkError
	var bad *source.BadRecordError
	var segment *shmem.SegmentError
	var data *builderunit.DataError
	var small *builderunit.SlotTooSmallError
	switch {
	case errors.As(err, &known):
		return known.part
	case errors.As(err, &data):
		return PartData
	case errors.As(err, &small):
		return PartConfig
	case errors.Is(err, errDown):
		return partLinks
	case errors.As(err, &link):
		return PartTransport
	case errors.As(err, &late):
		return partBarrier
	case errors.Is(err, tagnet.ErrGone):
		return PartScheduler
	case errors.As(err, &out):
		return PartOutput
	case errors.As(err, &bad), errors.Is(err, source.ErrChanged):
		return partInput
	case errors.As(err, &segment):
		return partMemory
	}
	return strings.ReplaceAll(where, " ", "_")
}

// partError is an error of a part that its type does not tell.
type partError struct {
	part string
	err  error
}

func (e *partError) Error() string { return e.err.Error() }
func (e *partError) Unwrap() error { return e.err }
