package ctl

import (
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/api"
)

// A control that ends is gone like one that does not answer; one that says what it lacks is there.
func TestWhoIsGone(t *testing.T) {
	unavailable := func(reason string) error {
		s, err := status.New(codes.Unavailable, "as it says").WithDetails(&errdetails.ErrorInfo{Reason: reason,
			Domain: api.Domain})
		if err != nil {
			t.Fatal(err)
		}
		return s.Err()
	}
	for name, tc := range map[string]struct {
		err  error
		gone bool
	}{
		"nobody answers":      {status.Error(codes.Unavailable, "connection refused"), true},
		"it ends":             {unavailable(api.ReasonEnding), true},
		"it cannot write":     {unavailable(api.ReasonAudit), false},
		"it refuses":          {status.Error(codes.PermissionDenied, "no"), false},
		"it is no gRPC error": {errors.New("broken"), false},
	} {
		if got := isUnreachable(tc.err); got != tc.gone {
			t.Errorf("%s: %v", name, got)
		}
		if got := ExitCode(errorOf("watch", "here", tc.err)) == exitNoControl; got != tc.gone {
			t.Errorf("%s: without control is %v", name, got)
		}
	}
}
