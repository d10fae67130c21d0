package tagnet

import (
	"errors"
	"fmt"
)

// Reason tells why an input was refused. Each has a counter in the registers.
type Reason uint8

// The reasons. Feedback is checked against what was issued, as the scheduler of TagNet-farm §III.D checks each
// message that comes back round the ring.
const (
	UnknownUnit     Reason = iota // no unit has this index
	UnitExcluded                  // the unit is excluded
	BadOutcome                    // the outcome is none that a builder unit may tell
	SlotOutOfRange                // the builder unit has no such slot
	NeverIssued                   // no token for this MEP has been issued
	AlreadyFinal                  // the MEP has its outcome: a slot freed twice
	WrongAttempt                  // the token issued last has another attempt number
	WrongBuilder                  // the token went to another builder unit
	WrongSlot                     // the token names another slot
	WrongEvents                   // a built MEP has another number of events than the readout units told
	WatermarkBack                 // a readout unit's watermark went back
	AfterEnd                      // a readout unit's watermark moved after its end
	EventsMismatch                // events and watermark of a readout unit do not fit together, or not with another unit's
	EndMismatch                   // readout units end at different MEPs
	NotNow                        // the operation makes no sense in this state
	TagUnknown                    // a tag came round that was not sent, or from where no ring ends
	TagTwice                      // a tag came round a second time
	TagWrong                      // a tag has another MEP, slot or attempt than was sent
	TagLoop                       // a tag came round in another loop than it was sent in
	TagBadServed                  // a tag's bit field lost or invented readout units
	TagUnserved                   // a tag that may not be passed on came round without having been served by all
	TagOvertook                   // a tag overtook another where none can
	BadConfirmation               // a readout unit confirmed an exclusion that is not, or twice
	numberOfReasons = iota
)

func (r Reason) String() string {
	return enumName(int(r), "unknown_unit", "excluded", "bad_outcome", "slot_out_of_range", "never_issued",
		"already_final",
		"wrong_attempt", "wrong_builder", "wrong_slot", "wrong_events", "watermark_back", "after_end", "events_mismatch",
		"end_mismatch", "not_now", "tag_unknown", "tag_twice", "tag_wrong", "tag_loop", "tag_served", "tag_unserved",
		"tag_order", "unsettled")
}

// Error makes a Reason an error, so that errors.Is(err, tagnet.WrongAttempt) works.
func (r Reason) Error() string { return "tagnet: " + r.String() }

// inputError is an input the core refused. It is equal to its Reason under errors.Is.
type inputError struct {
	Reason Reason
	Unit   string // name of the readout or builder unit
	Detail string // what was wrong, with the numbers
}

func (e *inputError) Error() string { return fmt.Sprintf("tagnet: %s: %s", e.Unit, e.Detail) }

// Unwrap gives the Reason.
func (e *inputError) Unwrap() error { return e.Reason }

// ErrGone is the error of a client whose server went away. Match it with errors.Is; *GoneError has the details.
var ErrGone = errors.New("tagnet: the scheduler is gone")

// GoneError says that a stream to the scheduler broke.
type GoneError struct {
	Unit string // name of the unit whose stream it was
	Err  error  // what gRPC said
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("tagnet: %s lost the scheduler: %v", e.Unit, e.Err)
}

// Is makes the error match ErrGone.
func (e *GoneError) Is(target error) bool { return target == ErrGone }

// Unwrap gives what gRPC said.
func (e *GoneError) Unwrap() error { return e.Err }

// Refusal names why the server refused or cut a session. It is the Reason of the status detail ErrorInfo.
type Refusal string

// The refusals. Each has a counter in the registers.
const (
	RefusedProtocol     Refusal = "wrong_protocol"   // another protocol version
	RefusedRun          Refusal = "wrong_run"        // another run
	RefusedView         Refusal = "wrong_view"       // another view
	RefusedName         Refusal = "unknown_name"     // no such unit in the view
	RefusedSecondAttach Refusal = "attached_already" // the unit has, or had, a stream
	RefusedExcluded     Refusal = "excluded"         // the unit is excluded
	// the unit is included again: it is to free its slots and to attach once more
	RefusedUntilReset Refusal = "reset_first"
	RefusedSlots      Refusal = "wrong_slots" // another number of slots than configured
	RefusedMessage    Refusal = "bad_message" // a message that cannot be meant
	RefusedInput      Refusal = "bad_input"   // an update that does not fit what was told before
	RefusedLagging    Refusal = "lagging"     // the stream is too far behind to be served
	RefusedOperation  Refusal = "unknown_operation"
	RefusedNotNow     Refusal = "not_now"        // the operation makes no sense in this state
	RefusedNoView     Refusal = "no_scheduler"   // a host has none, or not this one any more
	RefusedBusy       Refusal = "busy"           // a host has the scheduler of another run or view
	RefusedRole       Refusal = "wrong_role"     // the certificate of whoever asks does not allow it
	RefusedIdentity   Refusal = "wrong_identity" // the certificate has another name than the scope
	RefusedTerm       Refusal = "fenced"         // a control with a higher term has been heard
	refusedClosing    Refusal = "closing"        // the scheduler ends; a *GoneError to clients
)

const (
	refusalDomain          = "tagnet.ringlet" // of the status detail
	protocolVersion uint32 = 6
)

// RemoteError is a refusal by the server, as a client sees it.
type RemoteError struct {
	Refusal Refusal
	Message string // the sentence of the server
	Err     error  // the gRPC status
}

func (e *RemoteError) Error() string { return "tagnet: refused by the scheduler: " + e.Message }

// Is makes the refusal of a name match errUnknownUnit, and that of an operation at the wrong time NotNow, as they are
// where the server is here.
func (e *RemoteError) Is(target error) bool {
	return target == errUnknownUnit && e.Refusal == RefusedName || target == NotNow && e.Refusal == RefusedNotNow
}

// Unwrap gives the gRPC status error.
func (e *RemoteError) Unwrap() error { return e.Err }

// protocolError says that the server sent what it must not send.
type protocolError struct {
	Unit string // name of the unit that received it
	What string
}

func (e *protocolError) Error() string {
	return fmt.Sprintf("tagnet: %s: the scheduler sent %s", e.Unit, e.What)
}
