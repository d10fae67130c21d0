package input

import (
	"fmt"

	"ringlet/event"
)

// A Row is a fragment of an event, or a bank of one.
type Row struct {
	Run     uint32 // 0: unknown
	Event   uint64
	Orbit   uint32 // of the MDF record; 0 for other formats
	Bunch   uint32 // crossing, of the MDF record
	Source  uint16
	Type    event.BankType
	Version uint8
	Data    []byte // without padding, valid until the next row
	event.Words
}

// Missing says whether the row marks a missing fragment.
func (r *Row) Missing() bool { return r.Type == event.FragmentMissing }

// A Position is between two units of the inputs.
type Position struct {
	File   int    `json:"file"`   // index of the input
	Offset int64  `json:"offset"` // bytes from the start of the input
	Record int64  `json:"record"` // index of the next unit in the input
	MEP    uint64 `json:"mep"`    // of a recording: the lowest MEP that was not passed on
	Event  uint64 `json:"event"`  // number of the next MDF record of files
}

// A Consumer receives rows and reports from Each. If a method returns an error, Each ends with it.
type Consumer interface {
	Row(*Row) error
	Bad(*BadError) error
	// Dropped reports a fragment of a source that was left out, since an earlier input has it (Once).
	Dropped(source uint16)
	// Done reports the end of a unit of that many bytes, and the position of the next one.
	Done(next Position, bytes int64) error
}

// A BadError is a bad unit or file of the input.
type BadError struct {
	File   string
	Record int64 // index of the record or packet in its file; in a recording the number of the MEP; -1 where none is known
	Offset int64 // bytes; -1 where none is known
	Err    error // a *event.FormatError or a *recording.Problem
}

func (e *BadError) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }

// Unwrap returns Err.
func (e *BadError) Unwrap() error { return e.Err }
