package tagnet

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// refuse makes the status of every refused session, so that every refusal is counted.
func (s *Server) refuse(why core.Refusal, got, want any, format string, args ...any) error {
	s.countRefused(why)
	return refusalStatus(codeOf(why), why, metadataOf(got, want), format, args...)
}

// codeOf is the gRPC code of a refusal.
func codeOf(why core.Refusal) codes.Code {
	switch why {
	case core.RefusedName, core.RefusedMessage, core.RefusedInput, core.RefusedOperation:
		return codes.InvalidArgument
	case core.RefusedLagging:
		return codes.ResourceExhausted
	}
	return codes.FailedPrecondition
}

// refusal turns the Core's refusal of a session into a gRPC status.
func (s *Server) refusal(err error) error {
	var e *core.SessionError
	if errors.As(err, &e) {
		return s.refuse(e.Why, e.Got, e.Want, "%s", e.Message)
	}
	return err
}

// endOf turns the Core's reason for the end of a stream into a gRPC status.
func (s *Server) endOf(err error) error {
	var e *core.SessionError
	switch {
	case errors.Is(err, core.ErrSuperseded):
		return status.Error(codes.Aborted, err.Error())
	case errors.As(err, &e) && e.Why == core.RefusedExcluded:
		s.countRefused(e.Why)
		return refusalStatus(codes.Aborted, e.Why, metadataOf(e.Got, e.Want), "%s", e.Message)
	}
	return s.refusal(err)
}

func metadataOf(got, want any) map[string]string {
	return map[string]string{"got": fmt.Sprint(got), "want": fmt.Sprint(want)}
}

func (s *Server) countRefused(why core.Refusal) {
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	s.refusals.byRefusal[why]++
}

// refusalStatus is a refusal as a gRPC status.
func refusalStatus(code codes.Code, why core.Refusal, metadata map[string]string, format string, args ...any) error {
	st := status.New(code, "tagnet: "+strings.TrimPrefix(fmt.Sprintf(format, args...), "tagnet: "))
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: reasonOf(why), Domain: refusalDomain,
		Metadata: metadata})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

func reasonOf(why core.Refusal) string { return strings.ToUpper(string(why)) }

// refusalInfo is the detail of a status that refuses; nil if err is no refusal of this service.
func refusalInfo(err error) *errdetails.ErrorInfo {
	st, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == refusalDomain {
			return info
		}
	}
	return nil
}

// checkScope checks that a session is for this server. If anyRun is set, run and view 0 stand for any.
func (s *Server) checkScope(sc *tagnetv1.Scope, anyRun bool) error {
	switch {
	case sc == nil:
		return s.refuse(core.RefusedMessage, "no scope", "scope", "the first message has no scope")
	case sc.GetProtocol() != protocolVersion:
		return s.refuse(core.RefusedProtocol, sc.GetProtocol(), protocolVersion,
			"%q speaks protocol %d, this scheduler speaks %d", sc.GetName(), sc.GetProtocol(), protocolVersion)
	case anyRun && sc.GetRun() == 0 && sc.GetView() == 0:
		return nil
	case sc.GetRun() != s.cfg.Run:
		return s.refuse(core.RefusedRun, sc.GetRun(), s.cfg.Run,
			"%q asks for run %d, this is run %d", sc.GetName(), sc.GetRun(), s.cfg.Run)
	case sc.GetView() != s.cfg.View:
		return s.refuse(core.RefusedView, sc.GetView(), s.cfg.View,
			"%q has view %d, run %d is in view %d", sc.GetName(), sc.GetView(), s.cfg.Run, s.cfg.View)
	}
	return nil
}

// clientError turns a gRPC error of a client into an error of this package.
func clientError(unit string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	info := refusalInfo(err)
	if info == nil || info.GetReason() == reasonOf(core.RefusedClosing) {
		return &GoneError{Unit: unit, Err: err}
	}
	return &RemoteError{
		Refusal: core.Refusal(strings.ToLower(info.GetReason())),
		Message: strings.TrimPrefix(status.Convert(err).Message(), "tagnet: "),
		Err:     err,
	}
}
