package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/node/certs"
)

// Codes with which the program ends; docs/ctl.md promises them. 3 is bad input, with which a run on this machine ends.
const (
	exitGood         = 0
	exitFault        = 1 // a command failed, or time was over
	ExitUsage        = 2 // words, arguments, configuration
	exitPrecondition = 4 // forbidden in this state
	exitPermission   = 5 // not known, not of that role, or somebody else has control
	exitNoControl    = 6 // nobody answers
	exitRunNotGood   = 7 // the run that was waited for ended other than GOOD
)

// Error ends a row of commands.
type Error struct {
	Command  string // "" where it is of none
	ExitCode int
	Why      string   // a sentence
	Details  []string // what else the control said, a sentence each
	Err      error    // nil where nothing is behind it
}

func (e *Error) Error() string {
	s := e.Why
	if e.Command != "" {
		s = e.Command + ": " + s
	}
	for _, m := range e.Details {
		s += "\n  " + m
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is how the program ends after an error of this package.
func ExitCode(err error) int {
	var ctlErr *Error
	var usage *usageError
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &ctlErr):
		return ctlErr.ExitCode
	case errors.As(err, &usage):
		return ExitUsage
	}
	return exitFault
}

// errorOf makes an error of what a control at an address answered, or did not.
func errorOf(command, address string, err error) error {
	if err == nil {
		return nil
	}
	st, _ := status.FromError(err)
	e := &Error{
		Command:  command,
		ExitCode: exitFault,
		Why:      st.Message(),
		Details:  extraDetails(st),
		Err:      err,
	}
	switch st.Code() {
	case codes.InvalidArgument:
		e.ExitCode = ExitUsage
	case codes.FailedPrecondition:
		e.ExitCode = exitPrecondition
	case codes.PermissionDenied, codes.Unauthenticated:
		e.ExitCode = exitPermission
	case codes.Canceled:
		e.Why = "interrupted here; what the control has begun goes on there (ringlet ctl status)"
	case codes.DeadlineExceeded:
		e.Why = "no answer in time; what the control has begun goes on there (ringlet ctl status)"
	case codes.Unimplemented:
		e.Why = "the control at " + address + " does not know this call: it is of another version"
	case codes.Unavailable:
		if !isUnreachable(err) {
			break // it is there, and says itself what it lacks
		}
		why := innermostReason(e.Why)
		e.Command = ""
		// A handshake that is cut off says nothing about keys: somebody on the way answers for a control that is not there.
		cut := why == "EOF" || strings.Contains(why, "connection reset")
		if path := certs.ExplainUnanswered(e.Why); path != "" {
			e.ExitCode, e.Why = exitNoControl, fmt.Sprintf("no control answers at %s: %s", address, path)
		} else if strings.Contains(why, "tls: ") || strings.Contains(why, "x509: ") ||
			strings.Contains(e.Why, "handshake failed") && !cut {
			e.ExitCode, e.Why = exitPermission, fmt.Sprintf("the control at %s and these keys do not go together: %s", address,
				why)
		} else {
			e.ExitCode, e.Why = exitNoControl, fmt.Sprintf("no control answers at %s: %s", address, why)
		}
	}
	if st.Code() == codes.Canceled {
		e.Err = context.Canceled
	}
	return e
}

// isUnreachable says whether a control did not answer, which it may do again.
func isUnreachable(err error) bool {
	st, _ := status.FromError(err)
	if st.Code() != codes.Unavailable {
		return false
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason() == reasonEnding
		}
	}
	return len(st.Details()) == 0
}

// reasonEnding is how a control that ends says so (docs/api.md).
const reasonEnding = "ENDING"

// innermostReason takes what gRPC puts around the reason of a failed connection away.
func innermostReason(s string) string {
	for _, around := range []string{
		`desc = "`, "error reading server preface: ", "Error while dialing: ", "authentication handshake failed: ",
	} {
		if i := strings.LastIndex(s, around); i >= 0 {
			s = s[i+len(around):]
		}
	}
	if rest, is := strings.CutPrefix(s, "dial tcp "); is { // the address has been said
		_, s, _ = strings.Cut(rest, ": ")
	}
	return strings.TrimRight(s, `"`)
}

// extraDetails are sentences of the error's details that its message does not hold.
func extraDetails(st *status.Status) []string {
	var out []string
	add := func(subject, text string) {
		if text == "" || strings.Contains(st.Message(), text) {
			return
		}
		if subject != "" && !strings.Contains(text, subject) {
			text = subject + ": " + text
		}
		out = append(out, text)
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.PreconditionFailure:
			for _, v := range d.GetViolations() {
				add(v.GetSubject(), v.GetDescription())
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				add(v.GetField(), v.GetDescription())
			}
		}
	}
	return out
}
