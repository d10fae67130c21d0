package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Domain is the domain of the reasons in google.rpc.ErrorInfo.
const Domain = "ringlet"

// Reasons in google.rpc.ErrorInfo. A FaultError's reason is the code of its cause.
const (
	reasonState         = "STATE"         // the state forbids the command
	reasonArgument      = "ARGUMENT"      // an argument is unknown, missing or malformed
	reasonConfiguration = "CONFIGURATION" // the configuration has problems
	reasonControl       = "CONTROL"       // another user has control
	reasonRole          = "ROLE"          // the caller's role does not suffice
	reasonIdentity      = "IDENTITY"      // the caller has no certificate or session
	reasonNoRun         = "NO_RUN"        // there is no such run on record
	reasonDamaged       = "DAMAGED"       // the record of the run cannot be read as it was written
	ReasonAudit         = "AUDIT"         // the audit log cannot be written
	reasonRoute         = "ROUTE"         // there is no such call
	reasonOrigin        = "ORIGIN"        // a page of another site, or a foreign DNS name for this machine
	reasonLimit         = "LIMIT"         // all streams are in use, or the bytes under way in them
	ReasonEnding        = "ENDING"        // the run control ends
	reasonTime          = "TIME"          // the time for the answer is over
	reasonGone          = "GONE"          // the caller is gone
	reasonInternal      = "INTERNAL"      // a bug
)

// PreconditionError refuses a command that the state forbids.
type PreconditionError struct {
	State   string
	Command string
	Allowed []string // commands that would not be refused
	Why     string   // a sentence; empty if the state alone forbids the command
}

func (e *PreconditionError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("the partition, which is %s, cannot %s: %s", e.State, e.Command, e.Why)
	}
	s := fmt.Sprintf("the partition cannot %s in state %s", e.Command, e.State)
	if len(e.Allowed) > 0 {
		s += "; it takes " + strings.Join(e.Allowed, ", ") + " there"
	}
	return s
}

// ArgumentError refuses a request for a wrong field or argument.
type ArgumentError struct {
	Name string // of the field or argument, as a path: "command", "arguments.node"
	Why  string // a sentence
}

func (e *ArgumentError) Error() string { return e.Name + ": " + e.Why }

// ConfigurationError refuses a configuration.
type ConfigurationError struct {
	Problems []string // a sentence each
}

func (e *ConfigurationError) Error() string {
	return "the configuration is not taken: " + strings.Join(e.Problems, "; ")
}

// FaultError says that a command was begun and failed.
type FaultError struct {
	Cause *ecsv1.Cause
}

func (e *FaultError) Error() string {
	s := fmt.Sprintf("%s: %s", e.Cause.GetComponent(), e.Cause.GetWhat())
	if seen := e.Cause.GetEvidence(); seen != "" {
		s += " (" + seen + ")"
	}
	if advice := e.Cause.GetAdvice(); advice != "" {
		s += ". " + advice
	}
	return s
}

// roleError refuses a caller for its role.
type roleError struct {
	Caller caller
	Action string     // what was asked for, e.g. "command" or "take control by force"
	Needs  ecsv1.Role // the least role for the action
}

func (e *roleError) Error() string {
	return fmt.Sprintf("%s has the role %s here, and it takes at least %s to %s", e.Caller.Name, e.Caller.roleName(),
		roleName(e.Needs), e.Action)
}

// controlError refuses a caller since another user has control.
type controlError struct {
	Owner *ecsv1.Owner
}

func (e *controlError) Error() string {
	return fmt.Sprintf("%s has control since %s: ask for its release, or have an admin take it by force",
		e.Owner.GetName(), e.Owner.GetSince().AsTime().Format(time.RFC3339))
}

// identityError refuses a caller without a valid certificate or session.
type identityError struct{ why string }

func (e *identityError) Error() string { return e.why }

// auditError refuses a call since the audit log cannot be written.
type auditError struct{ cause error }

func (e *auditError) Error() string {
	return fmt.Sprintf("nothing is obeyed while the audit log cannot be written: %v", e.cause)
}

// reasonByCode are the reasons for plain statuses: of the interceptors, the gateway and gRPC.
var reasonByCode = map[codes.Code]string{
	codes.InvalidArgument:   reasonArgument,
	codes.NotFound:          reasonRoute,
	codes.Unimplemented:     reasonRoute,
	codes.PermissionDenied:  reasonOrigin,
	codes.ResourceExhausted: reasonLimit,
	codes.Unavailable:       ReasonEnding,
	codes.DeadlineExceeded:  reasonTime,
	codes.Canceled:          reasonGone,
}

// asStatus converts err into a gRPC status with an ErrorInfo. A status that has details stays as it is.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if s := statusOf(err); s != nil {
		return s
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return newStatus(codes.DeadlineExceeded,
			errors.New("the time for the answer is over; a command that was begun goes on"),
			reasonTime, nil)
	case errors.Is(err, context.Canceled):
		return newStatus(codes.Canceled, errors.New("the caller is gone; a command that was begun goes on"), reasonGone, nil)
	}
	plain, ok := status.FromError(err)
	if !ok {
		return newStatus(codes.Internal, err, reasonInternal, nil)
	}
	if len(plain.Details()) > 0 {
		return err
	}
	return newStatus(plain.Code(), errors.New(plain.Message()), cmp.Or(reasonByCode[plain.Code()], reasonInternal), nil)
}

// statusOf is the status of an error of this package or of package record; nil for any other.
func statusOf(err error) error {
	var (
		state    *PreconditionError
		argument *ArgumentError
		settings *ConfigurationError
		fault    *FaultError
		role     *roleError
		control  *controlError
		identity *identityError
		audit    *auditError
		noRun    *record.NoRunError
		damaged  *record.DamagedError
	)
	switch {
	case errors.As(err, &state):
		return newStatus(codes.FailedPrecondition, err, reasonState,
			map[string]string{"state": state.State, "command": state.Command, "allowed": strings.Join(state.Allowed, ",")},
			&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
				{Type: reasonState, Subject: state.State, Description: err.Error()}}})
	case errors.As(err, &argument):
		return newStatus(codes.InvalidArgument, err, reasonArgument, map[string]string{"argument": argument.Name},
			badRequest(argument.Name, argument.Why))
	case errors.As(err, &settings):
		return newStatus(codes.InvalidArgument, err, reasonConfiguration, nil,
			badRequest("configuration", settings.Problems...))
	case errors.As(err, &fault):
		c := fault.Cause
		return newStatus(codes.Aborted, err, c.GetCode(),
			map[string]string{"component": c.GetComponent(), "what": c.GetWhat(), "evidence": c.GetEvidence(),
				"at": c.GetAt().AsTime().Format(time.RFC3339Nano)})
	case errors.As(err, &role):
		return newStatus(codes.PermissionDenied, err, reasonRole,
			map[string]string{"user": role.Caller.Name, "role": role.Caller.roleName(), "needs": roleName(role.Needs)})
	case errors.As(err, &control):
		return newStatus(codes.PermissionDenied, err, reasonControl,
			map[string]string{"owner": control.Owner.GetName(), "since": control.Owner.GetSince().AsTime().Format(time.RFC3339)})
	case errors.As(err, &identity):
		return newStatus(codes.Unauthenticated, err, reasonIdentity, nil)
	case errors.As(err, &audit):
		return newStatus(codes.Unavailable, err, ReasonAudit, nil)
	case errors.As(err, &noRun):
		return newStatus(codes.NotFound, err, reasonNoRun, nil)
	case errors.As(err, &damaged):
		return newStatus(codes.DataLoss, err, reasonDamaged, nil)
	}
	return nil
}

func badRequest(field string, whys ...string) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, why := range whys {
		b.FieldViolations = append(b.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: why})
	}
	return b
}

// newStatus makes a status with an ErrorInfo and further details. It leaves out details that cannot be marshalled.
func newStatus(code codes.Code, err error, reason string, metadata map[string]string,
	details ...protoadapt.MessageV1) error {
	s := status.New(code, validUTF8(err.Error()))
	for key, value := range metadata {
		metadata[key] = validUTF8(value)
	}
	info := &errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: metadata}
	for _, all := range [][]protoadapt.MessageV1{append([]protoadapt.MessageV1{info}, details...), {info}} {
		if full, detailErr := s.WithDetails(all...); detailErr == nil {
			return full.Err()
		}
	}
	return s.Err()
}

// validUTF8 replaces invalid UTF-8, which protobuf does not send: texts may come from front-ends and file names.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
