package tagnet

import (
	"errors"
	"fmt"

	"ringlet/tagnet/core"
)

// ErrGone is the error of a client that has lost its server. Match it with errors.Is; *GoneError has the details.
var ErrGone = errors.New("tagnet: the scheduler is gone")

// errUnknownUnit is the error of an operation on a unit that the view does not have.
var errUnknownUnit = errors.New("tagnet: the view has no such unit")

// GoneError says that a stream to the scheduler broke.
type GoneError struct {
	Unit string // name of the unit that had the stream
	Err  error  // the error of gRPC
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("tagnet: %s lost the scheduler: %v", e.Unit, e.Err)
}

// Is makes the error match ErrGone.
func (e *GoneError) Is(target error) bool { return target == ErrGone }

// Unwrap returns the error of gRPC.
func (e *GoneError) Unwrap() error { return e.Err }

const (
	refusalDomain          = "tagnet.ringlet" // of the status detail
	protocolVersion uint32 = 8
)

// RemoteError is a refusal by the server.
type RemoteError struct {
	Refusal core.Refusal
	Message string // the server's sentence
	Err     error  // the gRPC status
}

func (e *RemoteError) Error() string { return "tagnet: refused by the scheduler: " + e.Message }

// Is makes the refusal of an unknown name match errUnknownUnit, and the refusal of an operation in the wrong state
// match NotNow, like the errors of a Server in this process.
func (e *RemoteError) Is(target error) bool {
	return target == errUnknownUnit && e.Refusal == core.RefusedName ||
		target == core.NotNow && e.Refusal == core.RefusedNotNow
}

// Unwrap returns the gRPC status error.
func (e *RemoteError) Unwrap() error { return e.Err }

// protocolError says that the server broke the protocol.
type protocolError struct {
	Unit string // name of the unit that received it
	What string
}

func (e *protocolError) Error() string {
	return fmt.Sprintf("tagnet: %s: the scheduler sent %s", e.Unit, e.What)
}
