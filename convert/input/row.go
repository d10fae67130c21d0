package input

import (
	"fmt"

	"ringlet/event"
)

// A Row is a fragment of an event, or a bank of one.
type Row struct {
	Run     uint32 // 0 where nothing says it
	Event   uint64
	Orbit   uint32 // of the MDF record; 0 for other formats
	Bunch   uint32 // crossing, of the MDF record
	Source  uint16
	Type    event.BankType
	Version uint8
	Data    []byte // without padding, good until the next row
}

// Missing says that the row marks a fragment that did not come.
func (r *Row) Missing() bool { return r.Type == event.FragmentMissing }

// A Position is between two units of the inputs.
type Position struct {
	File   int    `json:"file"`   // index of the input
	Offset int64  `json:"offset"` // in it, bytes
	Record int64  `json:"record"` // of the next unit in it
	MEP    uint64 `json:"mep"`    // of a recording: the lowest that has not been given
	Event  uint64 `json:"event"`  // of the next MDF record of files
}

// A Consumer takes what Each gives. An error of its ends Each.
type Consumer interface {
	Row(*Row) error
	Bad(*BadError) error
	// Dropped says that a fragment of a source was left out, since an input before has it (Once).
	Dropped(source uint16)
	// Done says that a unit of so many bytes is at its end, and where Each goes on.
	Done(next Position, bytes int64) error
}

// A BadError is input that is not what it should be.
type BadError struct {
	File   string
	Record int64 // index of the record or packet in its file; in a recording the number of the MEP; -1 where none is known
	Offset int64 // bytes; -1 where none is known
	Err    error // a *event.FormatError or a *recording.Problem
}

func (e *BadError) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }

// Unwrap gives the cause.
func (e *BadError) Unwrap() error { return e.Err }
