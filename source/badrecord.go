package source

import (
	"errors"
	"fmt"
	"strings"

	"ringlet/event"
)

// OnBadRecord says what a replay does with a record that it cannot use.
type OnBadRecord uint8

const (
	// StopAtBadRecord delivers the events before the bad record and then its error. It is the zero value: a run leaves
	// data out only where its configuration says so.
	StopAtBadRecord OnBadRecord = iota
	// SkipBadRecord leaves the record out, counts it and goes on after it.
	SkipBadRecord
)

var onBadRecordNames = [...]string{StopAtBadRecord: "stop", SkipBadRecord: "skip"}

func (o OnBadRecord) String() string {
	if int(o) < len(onBadRecordNames) {
		return onBadRecordNames[o]
	}
	return fmt.Sprintf("onbadrecord(%d)", uint8(o))
}

// ParseOnBadRecord returns the choice named s: stop or skip.
func ParseOnBadRecord(s string) (OnBadRecord, error) {
	for i, n := range onBadRecordNames {
		if s == n {
			return OnBadRecord(i), nil
		}
	}
	return 0, fmt.Errorf("what to do on a bad record is %s, not %q", strings.Join(onBadRecordNames[:], " or "), s)
}

// BadRecordError says which record of which file cannot be used, and why. errors.Is finds the kinds of package event in
// it (event.ErrTruncated, ErrMagic, ErrSize, ErrChecksum, ErrRange, ErrUnsupported), and ErrFileChanged.
type BadRecordError struct {
	File   string
	Record int64  // index in the file, from 0; skipped stretches count as one; event.NoRecord if it is not known
	Offset int64  // bytes from the start of the file to the field at fault
	Reason string // field and fault
	Err    error  // what Reason was made from
}

func (e *BadRecordError) Error() string {
	if e.Record == event.NoRecord {
		return fmt.Sprintf("%s: offset %d: %s", e.File, e.Offset, e.Reason)
	}
	return fmt.Sprintf("%s: record %d at offset %d: %s", e.File, e.Record, e.Offset, e.Reason)
}

// Unwrap returns the *event.FormatError, or ErrFileChanged.
func (e *BadRecordError) Unwrap() error { return e.Err }

// ErrFileChanged says that another process wrote to the file, or cut it short, while it was replayed.
var ErrFileChanged = errors.New("the file changed while it was read")

// newBadRecordError makes the error of a record from package event's error about it.
func newBadRecordError(file string, err error) *BadRecordError {
	bad := &BadRecordError{File: file, Err: err, Reason: err.Error()}
	var fe *event.FormatError
	if errors.As(err, &fe) {
		bad.Record, bad.Offset, bad.Reason = fe.Record, fe.Offset, fe.Reason
		if fe.Field != "" {
			bad.Reason = fe.Field + ": " + fe.Reason
		}
	}
	return bad
}
