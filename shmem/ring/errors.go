package ring

import (
	"errors"
	"fmt"
)

// Reasons why a producer cannot go on, or a call is refused.
var (
	ErrEnded         = errors.New("the front-end has declared the end of its run: the next run has a new ring")
	ErrClosed        = errors.New("the readout unit has closed the ring")
	ErrRefused       = errors.New("the readout unit has refused what stood in the ring, and reads no more of it")
	ErrTooLarge      = errors.New("the fragment is too large for the ring (?max= of the input allows more)")
	errReservation   = errors.New("a ring has one reserved place at a time: commit it, once, before the next is reserved")
	errEventReserved = errors.New("the event number 2^64-1 is reserved: numbers are from 0 to 2^64-2")
	errHostLayout    = errors.New("this machine is not 64-bit little-endian, as the layout of a ring needs")
)

// BrokenError says that a value in the ring is impossible: the other side wrote it, or the memory is no ring. The value
// is not used.
type BrokenError struct {
	Ring   string // name of the ring
	What   string // name of the field
	At     uint64 // position of its record; 0 for a field of the header
	Value  uint64
	Reason string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("ring %s: %s at position %d is %d: %s", e.Ring, e.What, e.At, e.Value, e.Reason)
}
