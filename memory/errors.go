package memory

import (
	"errors"
	"fmt"
)

// Outcome is what became of a transaction.
type Outcome uint8

// Outcomes.
const (
	Done    Outcome = iota
	Refused         // nothing of it was done; see Error.Partial
	Unknown         // it was sent, and may have been done, once, or not
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

// Causes of an Error, beside the causes of the context and of the link.
var (
	ErrNotFound   = errors.New("no node that was asked exports that name")
	ErrAmbiguous  = errors.New("several nodes export that name: import name@node")
	ErrExists     = errors.New("this node exports that name already: close that export first")
	ErrRevoked    = errors.New("the export is withdrawn: import the name again")
	ErrOutside    = errors.New("the bytes do not lie in the segment")
	ErrDenied     = errors.New("the owner does not open these pages for it")
	ErrMisaligned = errors.New("a word is 8 bytes long and stands at a multiple of 8")
	ErrBusy       = errors.New("the owner has too many requests of this node waiting")
	ErrTimeout    = errors.New("its time is over")
	ErrEarlier    = errors.New("an earlier write of the same context failed: ask Fence")
	ErrLinkDown   = errors.New("the link to the owner is over: import the name again when it is back")
	ErrClosed     = errors.New("the import or its space is closed")
	ErrProtocol   = errors.New("the peer does not speak this version of the messages of memory")
)

// reason is a cause as it stands in an answer. The zero reason is none.
type reason uint8

// Reasons. The numbers stand on the wire.
const (
	reasonNone reason = iota
	reasonNotFound
	reasonRevoked
	reasonOutside
	reasonDenied
	reasonMisaligned
	reasonBusy
	reasonCancelled
	reasonProtocol
	reasonTimeout // from here on never on the wire
	reasonEarlier
	reasonLinkDown
	reasonClosed

	reasons
)

var causes = [reasons]error{
	reasonNotFound:   ErrNotFound,
	reasonRevoked:    ErrRevoked,
	reasonOutside:    ErrOutside,
	reasonDenied:     ErrDenied,
	reasonMisaligned: ErrMisaligned,
	reasonBusy:       ErrBusy,
	reasonCancelled:  ErrTimeout,
	reasonProtocol:   ErrProtocol,
	reasonTimeout:    ErrTimeout,
	reasonEarlier:    ErrEarlier,
	reasonLinkDown:   ErrLinkDown,
	reasonClosed:     ErrClosed,
}

func (r reason) cause() error {
	if r < reasons && causes[r] != nil {
		return causes[r]
	}
	return ErrProtocol
}

// An Error says which transaction was not done, what became of it, and why.
type Error struct {
	Op      string // as "write"
	Segment string
	Node    string // the owner
	Offset  int64
	Length  int
	Outcome Outcome
	Partial bool // a refused write of which some bytes may be in place all the same
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

// OutcomeOf is what became of the transaction that returned err: Done for nil, Unknown for an error of others.
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
