package event

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure that a caller can tell apart with errors.Is. Each *FormatError wraps exactly one of them.
var (
	// ErrTruncated: the bytes end before the unit does.
	ErrTruncated = errors.New("truncated")
	// ErrMagic: the unit does not begin with its magic number.
	ErrMagic = errors.New("wrong magic")
	// ErrSize: a size field is impossible, or two that must agree disagree.
	ErrSize = errors.New("wrong size")
	// ErrChecksum: the checksum stored is not the checksum of the bytes.
	ErrChecksum = errors.New("wrong checksum")
	// errPacked: compressed bytes that cannot be unpacked.
	errPacked = errors.New("wrong compressed bytes")
	// ErrOrder: units stand out of order or on top of each other.
	ErrOrder = errors.New("wrong order")
	// ErrRange: a value does not fit its field, or breaks the rule for it.
	ErrRange = errors.New("out of range")
	// ErrUnsupported: well-formed, but of a kind Ringlet does not read.
	ErrUnsupported = errors.New("unsupported")
)

// The names FormatError.Format takes.
const (
	formatBank = "raw bank"
	FormatMFP  = "mfp"
	FormatMEP  = "mep"
	FormatMDF  = "mdf"
)

// NoRecord is FormatError.Record of bytes that are not in a numbered sequence, such as a MEP in memory.
const NoRecord int64 = -1

// FormatError says which field of which format is wrong, and where.
type FormatError struct {
	Format string // formatBank, FormatMFP, FormatMEP or FormatMDF
	Field  string // wrong field, in the words of docs/format
	Reason string // why the field is wrong, with the values
	Record int64  // index of the record or packet in its file, from 0; NoRecord outside one
	Offset int64  // bytes from the start of what was parsed (of the file, where Record is set)
	Err    error  // the kind, one of the Err values of this package
}

// Error is a sentence that says where to look, for example
// "mdf record 3 at offset 604211: record size: the three sizes 96, 97 and 96 disagree".
func (e *FormatError) Error() string {
	var s strings.Builder
	s.WriteString(e.Format)
	if e.Record != NoRecord {
		if e.Format == formatBank {
			s.WriteString(" in")
		}
		fmt.Fprintf(&s, " record %d", e.Record)
	}
	fmt.Fprintf(&s, " at offset %d: ", e.Offset)
	if e.Field != "" {
		s.WriteString(e.Field)
		s.WriteString(": ")
	}
	s.WriteString(e.Reason)
	return s.String()
}

// Unwrap returns the kind, for errors.Is(err, ErrChecksum).
func (e *FormatError) Unwrap() error { return e.Err }

// LocateError returns a copy of err placed in its file: record is the index of the
// record or packet, base the offset in the file of the bytes that were parsed.
// Errors that are not a *FormatError come back unchanged, nil included.
func LocateError(err error, record, base int64) error {
	var fe *FormatError
	if !errors.As(err, &fe) {
		return err
	}
	placed := *fe
	placed.Record = record
	placed.Offset += base
	return &placed
}

// newFormatError builds the error of a parser. It is not inlined: the parsers stay
// small, and allocate nothing where there is no error.
//
//go:noinline
func newFormatError(kind error, format, field string, offset int, reason string, args ...any) *FormatError {
	return &FormatError{
		Format: format,
		Field:  field,
		Reason: fmt.Sprintf(reason, args...),
		Record: NoRecord,
		Offset: int64(offset),
		Err:    kind,
	}
}

// shiftOffset adds by to the offset of an error: the parser of an MFP counts
// from the MFP's start, the caller from the MEP's start.
func shiftOffset(err error, by int) error {
	if err == nil {
		return nil // before fe, which errors.As moves to the heap
	}
	var fe *FormatError
	if !errors.As(err, &fe) {
		return err
	}
	moved := *fe
	moved.Offset += int64(by)
	return &moved
}
