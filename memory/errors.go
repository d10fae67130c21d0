package memory

import (
	"errors"
	"fmt"
)

// Outcome is how a transaction has ended.
type Outcome uint8

// Outcomes.
const (
	Done    Outcome = iota
	Refused         // it was not done, and changed nothing, unless Error.Partial is set
	Unknown         // the request was sent: the transaction was done once, or not at all
)

func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Refused:
		return "refused"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Cause is why a transaction failed, unless the link or the context failed: then that error is the reason. Compare a
// Cause with errors.Is.
type Cause uint8

// Causes. Those up to ErrProtocol are numbers in messages.
const (
	causeNone Cause = iota
	ErrNotFound
	ErrRevoked
	ErrOutside
	ErrDenied
	ErrMisaligned
	ErrBusy
	causeCancelled // of a wait: its caller has cancelled it
	ErrProtocol
	ErrTimeout
	ErrEarlier
	ErrLinkDown
	ErrClosed
	ErrAmbiguous
	ErrExists
	ErrFull
	ErrNotPostable

	numCauses
)

var causeTexts = [numCauses]string{
	ErrNotFound:    "no node that was asked exports that name",
	ErrRevoked:     "the export is withdrawn: import the name again",
	ErrOutside:     "the bytes do not lie in the segment",
	ErrDenied:      "the owner does not open these pages for it",
	ErrMisaligned:  "a word is 8 bytes long and stands at a multiple of 8",
	ErrBusy:        "the owner has no room for it, of requests that wait or of windows: ask again later",
	causeCancelled: "it was cancelled",
	ErrProtocol:    "the peer does not speak this version of the messages of memory",
	ErrTimeout:     "its time is over",
	ErrEarlier:     "an earlier write of the same context failed: ask Fence",
	ErrLinkDown:    "the link to the owner is over: import the name again when it is back",
	ErrClosed:      "the import or its space is closed",
	ErrAmbiguous:   "several nodes export that name: import name@node",
	ErrExists:      "this node exports that name already: close that export first",
	ErrFull:        "the queue of writes to this owner is full: write again when the owner has answered earlier writes",
	ErrNotPostable: "what is posted is at most 64 KiB long, and lies in pages of one kind: use Write",
}

func (c Cause) Error() string {
	if c < numCauses && c != causeNone {
		return causeTexts[c]
	}
	return fmt.Sprintf("a cause that this version does not know: %d", uint8(c))
}

// An Error says which transaction failed, and why. Outcome says what the caller can rely on: the transaction was
// refused, or it is unknown whether it was done.
type Error struct {
	Op      string // such as "write"
	Segment string
	Node    string // the owner
	Offset  int64
	Length  int
	Outcome Outcome
	Partial bool // of a refused write some bytes may be in place
	Cause   error
}

func (e *Error) Error() string {
	where := e.Segment
	if e.Node != "" {
		where += "@" + e.Node
	}
	what := fmt.Sprintf("%s %s", e.Op, where)
	if e.Length > 0 {
		what = fmt.Sprintf("%s [%d, +%d)", what, e.Offset, e.Length)
	}
	switch {
	case e.Outcome == Unknown:
		return fmt.Sprintf("%s: unknown whether it was done: %v", what, e.Cause)
	case e.Partial:
		return fmt.Sprintf("%s: refused, perhaps after a part of it: %v", what, e.Cause)
	}
	return fmt.Sprintf("%s: refused: %v", what, e.Cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// OutcomeOf is the outcome of the transaction that returned err: Done for nil, Unknown for an error of another package.
func OutcomeOf(err error) Outcome {
	var e *Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &e):
		return e.Outcome
	}
	return Unknown
}
