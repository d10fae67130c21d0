package shmem

import (
	"errors"
	"fmt"
)

// Reasons of this package's errors. They are wrapped in typed errors that say which step failed and where; callers
// branch with errors.Is.
var (
	// segments
	errBadName        = errors.New("the name is not usable as a segment's file name")
	errBadSize        = errors.New("the size is not usable for a segment")
	ErrExists         = errors.New("a segment of this name exists")
	ErrNotFound       = errors.New("there is no segment of this name")
	ErrNoSpace        = errors.New("there is not enough shared memory")
	errForeignSegment = errors.New("the file is not a segment of this user")
	errClosed         = errors.New("it is closed")

	// export table
	errUnknownSegment = errors.New("the segment is not exported")
	errOutOfSegment   = errors.New("the range is empty or does not lie inside the segment")
	errPageDenied     = errors.New("a page of the range is closed to this peer")
	ErrOverlap        = errors.New("the range overlaps another one, which is exported or granted already")
	ErrTableFull      = errors.New("all windows of the table are in use")
	errBadAccess      = errors.New("the access is empty, or has an unknown kind")
	errBadPeer        = errors.New("a grant must be to one peer, not to any")
	errInUse          = errors.New("a window of the segment is still granted")
	errStaleRef       = errors.New("the window that the reference names is not granted any more")
	errPinned         = errors.New(
		"an evicted peer's process is alive and still inside the window, so its bytes cannot be taken back")
	ErrOtherTable     = errors.New("the table is not the expected one: an earlier process or another host made it")
	errPeerInUse      = errors.New("another importer writes as this peer already")
	errOtherDirectory = errors.New("the segment lies in another directory than the shared table")
	errDirectoryFull  = errors.New("the shared table's directory of segments is full")

	// slots
	errNoSlot    = errors.New("there is no slot of this number")
	errNoSpare   = errors.New("every spare block is lent")
	ErrSlotState = errors.New("the slot is not in the state this step begins from")

	// buffers
	ErrEndOfRun       = errors.New("the run has ended, and this reader has had all its entries")
	errEnded          = errors.New("the end of the run is marked: nothing can follow")
	ErrWriterGone     = errors.New("the writer is gone without marking the end of the run")
	ErrReaderDead     = errors.New("a reader died without acknowledging: DetachDead frees what it holds")
	errDetached       = errors.New("the writer has detached this reader")
	errReadersFull    = errors.New("every place for a reader of the buffer is taken")
	ErrTooLarge       = errors.New("the entry is larger than half of the buffer or 4 GiB")
	errOutstanding    = errors.New("a reserved place is neither committed nor cancelled")
	errNotOutstanding = errors.New("the place is not reserved: it was returned before, or never handed out")
	errBadEntry       = errors.New("the entry's length or type does not fit the place")
	errLossySharing   = errors.New("a reader that shares entries with others may not lose any")
	errBadMode        = errors.New("the mode is neither broadcast nor sharing")
	errHostLayout     = errors.New("this machine is not 64-bit little-endian, as the layouts of shared memory need")
)

// SegmentError is a failure to create, open, close or sweep a segment.
type SegmentError struct {
	Op   string // "create", "open", "close", "sweep"
	Path string // of the file
	Size int    // bytes requested; 0 if the step has no size
	Err  error
}

func (e *SegmentError) Error() string {
	if e.Size > 0 {
		return fmt.Sprintf("%s segment %s of %d bytes: %v", e.Op, e.Path, e.Size, e.Err)
	}
	return fmt.Sprintf("%s segment %s: %v", e.Op, e.Path, e.Err)
}

func (e *SegmentError) Unwrap() error { return e.Err }

// opError says which step was refused, and why.
type opError struct {
	step string // with format verbs for args
	args []any
	Err  error
}

// stepError makes the error of a step; args belong to the step's format verbs.
func stepError(err error, step string, args ...any) error { return &opError{step, args, err} }

func (e *opError) Error() string {
	return fmt.Sprintf(e.step+": %v", append(e.args[:len(e.args):len(e.args)], e.Err)...)
}

func (e *opError) Unwrap() error { return e.Err }

// corruptError says that a value in shared memory is impossible: another process wrote it, or the memory is not what
// this process takes it for. The value is not used.
type corruptError struct {
	Segment string
	What    string
	Value   uint64
	Reason  string
}

func (e *corruptError) Error() string {
	return fmt.Sprintf("segment %s: %s is %d: %s", e.Segment, e.What, e.Value, e.Reason)
}
