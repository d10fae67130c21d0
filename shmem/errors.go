package shmem

import (
	"errors"
	"fmt"
)

// Reasons of the errors of this package. They are wrapped in a typed error that says what and
// where; callers branch with errors.Is.
var (
	// segments
	ErrBadName  = errors.New("the name is not usable as a segment's file name")
	ErrBadSize  = errors.New("the size is not usable for a segment")
	ErrExists   = errors.New("a segment of this name exists")
	ErrNotFound = errors.New("there is no segment of this name")
	ErrNoSpace  = errors.New("there is not enough shared memory")
	ErrForeign  = errors.New("the file is not a segment of this user")
	ErrClosed   = errors.New("it is closed")

	// export table
	ErrUnknownSegment = errors.New("the segment is not exported")
	ErrOutOfSegment   = errors.New("the range is empty or does not lie inside the segment")
	ErrPageDenied     = errors.New("a page of the range is closed to this peer")
	ErrOverlap        = errors.New("the range overlaps one that is in use")
	ErrTableFull      = errors.New("every window of the table is in use")
	ErrBadAccess      = errors.New("the access names nothing or something unknown")
	ErrBadPeer        = errors.New("a grant goes to one peer, not to any")
	ErrInUse          = errors.New("a grant of the segment is live")
	ErrStaleRef       = errors.New("the reference is not that of a live grant")
	ErrPinned         = errors.New(
		"an evicted peer's process lives and is still inside the window: its bytes cannot be had back")
	ErrNotHere   = errors.New("the table is not the one that was meant: it is of another time or another host")
	ErrPeerTaken = errors.New("another importer writes as this peer already")
	ErrElsewhere = errors.New("the segment lies in another directory than the shared table")
	ErrDirectory = errors.New("the shared table's directory of segments is full")

	// slots
	ErrNoSlot    = errors.New("there is no slot of this number")
	ErrSlotState = errors.New("the slot is not in the state this step begins from")

	// buffers
	ErrEndOfRun    = errors.New("the run has ended and every entry was given out")
	ErrEnded       = errors.New("the end of the run is marked: nothing can follow")
	ErrWriterGone  = errors.New("the writer is gone without marking the end of the run")
	ErrReaderDead  = errors.New("a reader died without acknowledging: DetachDead frees what it holds")
	ErrDetached    = errors.New("the writer has detached this reader")
	ErrNoReader    = errors.New("every reader's place of the buffer is taken")
	ErrTooLarge    = errors.New("the entry is larger than half of the buffer or 4 GiB")
	ErrFull        = errors.New("the buffer is full: a reader has not acknowledged")
	ErrOutstanding = errors.New("a reserved place is neither committed nor cancelled")
	ErrNotOut      = errors.New("the place is not out: it was given back before, or never handed out")
	ErrBadEntry    = errors.New("the length or the type is not that of an entry for this place")
	ErrBadMode     = errors.New("the mode is neither broadcast nor sharing")
	ErrHost        = errors.New("the layouts are for 64-bit little-endian machines")
)

// SegmentError is a failure to create, open, close or sweep a segment.
type SegmentError struct {
	Op   string // "create", "open", "close", "sweep"
	Path string // of the file
	Size int    // bytes asked for; 0 where it does not matter
	Err  error
}

func (e *SegmentError) Error() string {
	if e.Size > 0 {
		return fmt.Sprintf("%s segment %s of %d bytes: %v", e.Op, e.Path, e.Size, e.Err)
	}
	return fmt.Sprintf("%s segment %s: %v", e.Op, e.Path, e.Err)
}

func (e *SegmentError) Unwrap() error { return e.Err }

// GrantError is an export, page rule or grant that the Table refused.
type GrantError struct {
	Op      string
	Segment SegmentID
	Peer    Peer
	Off, N  int // bytes; pages in a page rule
	Access  Access
	Err     error
}

func (e *GrantError) Error() string {
	return fmt.Sprintf("%s segment %d [%d, +%d) to peer %d for %v: %v", e.Op, e.Segment, e.Off, e.N, e.Peer, e.Access,
		e.Err)
}

func (e *GrantError) Unwrap() error { return e.Err }

// RefError is a reference that does not name a live grant, or whose grant could not be ended. It is ErrStaleRef or
// ErrPinned for errors.Is.
type RefError struct {
	Ref       Ref
	Violation Violation
	Err       error // ErrPinned; nil otherwise
}

func (e *RefError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("revoke window %d generation %d: %v", e.Ref.Window, e.Ref.Gen, e.Err)
	}
	return fmt.Sprintf("revoke window %d generation %d: %v", e.Ref.Window, e.Ref.Gen, e.Violation)
}

// Is makes errors.Is(err, ErrStaleRef) true, unless Err says otherwise.
func (e *RefError) Is(target error) bool { return e.Err == nil && target == ErrStaleRef }

func (e *RefError) Unwrap() error { return e.Err }

// SlotError is a step of a slot that its state does not allow.
type SlotError struct {
	Segment  string
	Slot     int
	From, To SlotState // the step asked for
	State    SlotState // what the slot is in; meaningless for ErrNoSlot
	Err      error
}

func (e *SlotError) Error() string {
	return fmt.Sprintf("segment %s slot %d: %v to %v while %v: %v", e.Segment, e.Slot, e.From, e.To, e.State, e.Err)
}

func (e *SlotError) Unwrap() error { return e.Err }

// BufferError is a failure of a step on a buffer.
type BufferError struct {
	Op      string
	Segment string
	Err     error
}

func (e *BufferError) Error() string {
	return fmt.Sprintf("%s buffer %s: %v", e.Op, e.Segment, e.Err)
}

func (e *BufferError) Unwrap() error { return e.Err }

// CorruptError is a value in shared memory that cannot be: another process wrote it, or it is
// not what it is taken for. Nothing is done with the value.
type CorruptError struct {
	Segment string
	What    string
	Value   uint64
	Reason  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("segment %s: %s is %d: %s", e.Segment, e.What, e.Value, e.Reason)
}
