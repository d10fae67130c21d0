package core

import (
	"context"
	"errors"
	"fmt"
)

// Reason tells why an input was refused. Each has a counter in the registers.
type Reason uint8

// The reasons. The scheduler checks feedback against what it has issued, as the scheduler of TagNet-farm §III.D checks
// each message that comes back round the ring.
const (
	UnknownUnit     Reason = iota // no unit has this index
	UnitExcluded                  // the unit is excluded
	BadOutcome                    // a builder unit may not report this outcome
	SlotOutOfRange                // the builder unit has no such slot
	NeverIssued                   // no token for this MEP has been issued
	AlreadyFinal                  // the MEP has its outcome already: its slot would be freed twice
	WrongAttempt                  // the token issued last has another attempt number
	WrongBuilder                  // the token went to another builder unit
	WrongSlot                     // the token names another slot
	WrongEvents                   // a built MEP has another number of events than the readout units reported
	WatermarkBack                 // a readout unit's watermark went back
	AfterEnd                      // a readout unit's watermark moved after its end
	EventsMismatch                // events and watermark of a readout unit do not fit together, or not with another unit's
	EndMismatch                   // readout units end at different MEPs
	NotNow                        // the operation makes no sense in this state
	TagUnknown                    // a tag came round that was not sent, or came from a readout unit other than the last
	TagTwice                      // a tag came round a second time
	TagWrong                      // a tag has another MEP, slot or attempt than was sent
	TagLoop                       // a tag came round in another loop than it was sent in
	TagBadServed                  // a tag's bit field lost or invented readout units
	TagUnserved                   // a tag that may not be passed on came round without having been served by all
	TagOvertook                   // a tag overtook another in a ring without by-pass
	BadConfirmation               // a readout unit confirmed an exclusion that does not exist, or one a second time
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

// Unwrap returns the Reason.
func (e *inputError) Unwrap() error { return e.Reason }

// Refusal names why the scheduler refused or ended a session, or refused a call. It is the Reason of the status detail
// ErrorInfo.
type Refusal string

// The refusals. Each has a counter in the registers.
const (
	RefusedProtocol     Refusal = "wrong_protocol"   // another protocol version
	RefusedRun          Refusal = "wrong_run"        // another run
	RefusedView         Refusal = "wrong_view"       // another view
	RefusedName         Refusal = "unknown_name"     // no such unit in the view
	RefusedSecondAttach Refusal = "attached_already" // the unit has, or had, a stream
	RefusedExcluded     Refusal = "excluded"         // the unit is excluded
	// the unit is included again, but must first free its slots and attach once more
	RefusedUntilReset Refusal = "reset_first"
	RefusedSlots      Refusal = "wrong_slots" // another number of slots than configured
	RefusedMessage    Refusal = "bad_message" // no correct client sends this message
	RefusedInput      Refusal = "bad_input"   // an update contradicts an earlier one
	RefusedLagging    Refusal = "lagging"     // the scheduler no longer has all notices that the stream still needs
	RefusedOperation  Refusal = "unknown_operation"
	RefusedNotNow     Refusal = "not_now"        // the operation makes no sense in this state
	RefusedNoView     Refusal = "no_scheduler"   // the host has no scheduler, or no longer this one
	RefusedBusy       Refusal = "busy"           // the host has the scheduler of another run or view
	RefusedRole       Refusal = "wrong_role"     // the role in the caller's certificate does not allow it
	RefusedIdentity   Refusal = "wrong_identity" // the certificate has another name than the scope
	RefusedTerm       Refusal = "fenced"         // the scheduler has had a call of a control with a higher term
	RefusedClosing    Refusal = "closing"        // the scheduler ends; a *GoneError to clients
)

// SessionError refuses a session, or ends one.
type SessionError struct {
	Why       Refusal
	Got, Want any // what was wrong, and what was expected, for programs
	Message   string
}

func (e *SessionError) Error() string { return e.Message }

// ErrSuperseded ends the stream of a session that has gone on over another one.
var ErrSuperseded = errors.New("tagnet: the session has gone on over another stream")

// Role is what a unit is in the view.
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
	UnitLost       Incident = iota // its stream broke before the view was drained, and the unit did not resume in time
	UnitMissing                    // it did not attach in time
	UnitMisbehaved                 // it reported what cannot be true; its stream is cut, except for EndMismatch
)

func (i Incident) String() string { return enumName(int(i), "lost", "missing", "misbehaved") }

// UnitError reports an incident with a unit. The scheduler only reports it: the run control decides whether to exclude
// the unit or to end the run.
type UnitError struct {
	Role     Role
	Unit     string
	Incident Incident
	Err      error // how the incident was seen; nil for UnitMissing
}

func (e *UnitError) Error() string {
	s := "tagnet: " + e.Role.String() + " " + e.Unit
	switch e.Incident {
	case UnitMissing:
		return s + " has not attached to the scheduler in time"
	case UnitMisbehaved:
		return s + " reported what cannot be true: " + e.Err.Error()
	}
	if errors.Is(e.Err, context.Canceled) { // gRPC reports a connection that is gone as cancelled
		return s + " is lost to the scheduler: its connection is gone"
	}
	return s + " is lost to the scheduler: " + e.Err.Error()
}

// Unwrap returns how the incident was seen.
func (e *UnitError) Unwrap() error { return e.Err }
