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

// Exit codes of the program (docs/ctl.md). `ringlet run` has 3, too: bad input.
const (
	exitGood         = 0
	exitFault        = 1 // a command failed or timed out
	ExitUsage        = 2 // wrong words, arguments or configuration
	exitPrecondition = 4 // the state forbids the command
	exitPermission   = 5 // the user is unknown, lacks the role, or another user has control
	exitNoControl    = 6 // no control answers
	exitRunNotGood   = 7 // the verdict of the run is not GOOD
)

// Error is why a command failed; the commands after it are not given.
type Error struct {
	Command  string // empty: the error belongs to no command
	ExitCode int
	Why      string   // a sentence
	Details  []string // further sentences of the control
	Err      error    // the wrapped error, or nil
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

// ExitCode is the exit code of the program for an error of this package.
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

// errorOf converts the error of a call to the control at an address into an *Error.
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
			break // the control has answered with an error of its own
		}
		why := innermostReason(e.Why)
		e.Command = ""
		// A handshake that is cut off does not show wrong keys: a proxy on the way may accept connections for a control that
		// is not there.
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

// isUnreachable says whether the control did not answer, or is ending: a later call may succeed.
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

// reasonEnding is the reason in the errors of a control that is ending (docs/api.md).
const reasonEnding = "ENDING"

// innermostReason strips the words that gRPC puts around the reason of a failed connection.
func innermostReason(s string) string {
	for _, around := range []string{
		`desc = "`, "error reading server preface: ", "Error while dialing: ", "authentication handshake failed: ",
	} {
		if i := strings.LastIndex(s, around); i >= 0 {
			s = s[i+len(around):]
		}
	}
	if rest, is := strings.CutPrefix(s, "dial tcp "); is { // the message of errorOf has the address
		_, s, _ = strings.Cut(rest, ": ")
	}
	return strings.TrimRight(s, `"`)
}

// extraDetails are the sentences in a status's details that are not in its message.
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
