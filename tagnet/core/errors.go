package core

import (
	"context"
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

// Refusal names why a session was refused or cut, or a call. It is the Reason of the status detail ErrorInfo.
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
	RefusedClosing    Refusal = "closing"        // the scheduler ends; a *GoneError to clients
)

// SessionError refuses a session, or ends one.
type SessionError struct {
	Why       Refusal
	Got, Want any // what decided it, for programs
	Message   string
}

func (e *SessionError) Error() string { return e.Message }

// ErrSuperseded ends the stream of a session that has gone on over another one.
var ErrSuperseded = errors.New("tagnet: the session has gone on over another stream")

// Role of a unit.
type Role uint8

// The roles.
const (
	Readout Role = iota
	Builder
)

func (r Role) String() string { return enumName(int(r), "readout unit", "builder unit") }

// Incident is what can be wrong with a unit.
type Incident uint8

// The incidents.
const (
	UnitLost       Incident = iota // its stream broke before the view was drained, and was not resumed in time
	UnitMissing                    // it has not attached in time
	UnitMisbehaved                 // it told what cannot be; its stream is cut, except for EndMismatch
)

func (i Incident) String() string { return enumName(int(i), "lost", "missing", "misbehaved") }

// UnitError reports an incident with a unit. The scheduler only reports: whether to exclude the unit or to end the run
// is the run control's decision.
type UnitError struct {
	Role     Role
	Unit     string
	Incident Incident
	Err      error // what it was seen by; nil for Missing
}

func (e *UnitError) Error() string {
	s := "tagnet: " + e.Role.String() + " " + e.Unit
	switch e.Incident {
	case UnitMissing:
		return s + " has not attached to the scheduler in time"
	case UnitMisbehaved:
		return s + " told the scheduler what cannot be: " + e.Err.Error()
	}
	if errors.Is(e.Err, context.Canceled) { // gRPC's word for a connection that is gone
		return s + " is lost to the scheduler: its connection is gone"
	}
	return s + " is lost to the scheduler: " + e.Err.Error()
}

// Unwrap gives what the incident was seen by.
func (e *UnitError) Unwrap() error { return e.Err }
