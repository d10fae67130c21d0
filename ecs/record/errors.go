package record

import (
	"fmt"
	"time"
)

// lockedError says that another process has the file open.
type lockedError struct {
	Path   string
	PID    int // of the process; 0: not known
	Waited time.Duration
}

func (e *lockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("record %s: %s has it open, and did not close it within %v: one run control at a time", e.Path, who,
		e.Waited)
}

// BusyError says that the disk did not answer in time. The write may still succeed later.
type BusyError struct {
	Path   string
	Waited time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("record %s: the disk has not answered for %v: look whether it is full, broken or overloaded",
		e.Path, e.Waited)
}

// foreignError says that a file has no run records, or a version of them that this program does not know.
type foreignError struct{ Path, What string }

func (e *foreignError) Error() string { return fmt.Sprintf("record %s: %s", e.Path, e.What) }

// DamagedError names a value that cannot be read as it was written.
type DamagedError struct {
	Path string
	What string // e.g. "the summary of run 7", or "the file"
	Why  string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("record %s: %s is damaged: %s", e.Path, e.What, e.Why)
}

// NoRunError says that a run is not on record.
type NoRunError struct{ Run uint32 } // 0: there are no runs

func (e *NoRunError) Error() string {
	if e.Run == 0 {
		return "record: there is no run on record"
	}
	return fmt.Sprintf("record: there is no run %d on record", e.Run)
}

// ClosedError refuses to change a closed record: one with a verdict and an end.
type ClosedError struct{ Run uint32 }

func (e *ClosedError) Error() string {
	return fmt.Sprintf("record: run %d has its verdict and its end; a closed record is not changed", e.Run)
}

// exhaustedError says that all run numbers are used.
type exhaustedError struct{ Last uint32 }

func (e *exhaustedError) Error() string {
	return fmt.Sprintf("record: run numbers are used up: the last was %d", e.Last)
}
