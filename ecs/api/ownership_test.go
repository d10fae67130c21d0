package api

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestOwnership(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	alice, bob := caller{Name: "alice", Role: ecsv1.Role_ROLE_OPERATOR},
		caller{Name: "bob", Role: ecsv1.Role_ROLE_OPERATOR}
	ada := caller{Name: "ada", Role: ecsv1.Role_ROLE_ADMIN}
	nobody, alices := ownership{}, ownership{"alice", ecsv1.Role_ROLE_OPERATOR, at}
	later := at.Add(time.Hour)
	take := func(force bool) func(ownership, caller) (ownership, error) {
		return func(o ownership, c caller) (ownership, error) { return o.acquire(c, force, later) }
	}
	obey := func(o ownership, c caller) (ownership, error) { return o, o.checkOwner(c) }
	for _, c := range []struct {
		name string
		from ownership
		who  caller
		step func(ownership, caller) (ownership, error)
		to   ownership
		err  string
	}{
		{"take from nobody", nobody, alice, take(false), ownership{"alice", alice.Role, later}, ""},
		{"take again", alices, alice, take(false), alices, ""},
		{"take from another", alices, bob, take(false), alices, "alice has control since 2026-11-21T12:00:00Z"},
		{"an operator's force", alices, bob, take(true), alices, "it takes at least admin"},
		{"an operator's force against nobody", nobody, bob, take(true), nobody, "it takes at least admin"},
		{"an admin without force", alices, ada, take(false), alices, "alice has control"},
		{"an admin's force", alices, ada, take(true), ownership{"ada", ada.Role, later}, ""},
		{"release", alices, alice, ownership.release, nobody, ""},
		{"release another's", alices, ada, ownership.release, alices, "alice has control"},
		{"release nobody's", nobody, alice, ownership.release, nobody, ""},
		{"command of the owner", alices, alice, obey, alices, ""},
		{"command of another", alices, ada, obey, alices, "alice has control"},
		{"command while nobody has it", nobody, bob, obey, nobody, ""},
	} {
		got, err := c.step(c.from, c.who)
		if got != c.to {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.to)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

// Whatever is asked in whatever order: control goes over only from nobody or by an admin's force, and a command is
// obeyed only of whom nobody stands in front of.
func TestOwnershipProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o ownership
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c := caller{Name: rapid.SampledFrom([]string{"alice", "bob", "ada"}).Draw(t, "who"), Role: ecsv1.Role_ROLE_OPERATOR}
			if c.Name == "ada" {
				c.Role = ecsv1.Role_ROLE_ADMIN
			}
			now = now.Add(time.Second)
			var next ownership
			var err error
			force := rapid.Bool().Draw(t, "force")
			if rapid.Bool().Draw(t, "take") {
				next, err = o.acquire(c, force, now)
			} else {
				next, err = o.release(c)
			}
			switch {
			case err != nil && next != o:
				t.Fatalf("refused, and it went from %+v to %+v", o, next)
			case next.name != o.name && o.name != "" && o.name != c.Name && (!force || c.Role != ecsv1.Role_ROLE_ADMIN):
				t.Fatalf("%s took it from %s", c.Name, o.name)
			case next.name != "" && next.checkOwner(caller{Name: "eve"}) == nil:
				t.Fatal("a stranger is obeyed while somebody has control")
			}
			o = next
		}
	})
}

func TestEveryErrorHasItsReason(t *testing.T) {
	for _, err := range []error{
		&PreconditionError{State: "Ready", Command: "pause"}, &ArgumentError{Name: "command", Why: "it is none"},
		&ConfigurationError{Problems: []string{"a", "b"}},
		&FaultError{Cause: &ecsv1.Cause{
			Code:      "process_lost",
			Component: "n2",
			What:      "it is gone",
			Evidence:  "\xff no UTF-8",
		}}, &roleError{}, &controlError{},
		&identityError{"who"}, &auditError{errors.New("full")}, &record.NoRunError{}, &record.DamagedError{},
		errors.New("broken"), errors.New("\xff"),
		&ArgumentError{Name: "request", Why: "\xff"}, context.Canceled, context.DeadlineExceeded,
		status.Error(codes.PermissionDenied, "elsewhere"), status.Error(codes.Unavailable, "it ends"),
		status.Error(codes.OutOfRange, "whatever"),
	} {
		s := asStatus(err)
		plain, ok := status.FromError(s)
		if !ok || !errors.Is(asStatus(s), s) || len(plain.Details()) == 0 {
			t.Errorf("%T: %v", err, s)
			continue
		}
		if info, ok := plain.Details()[0].(*errdetails.ErrorInfo); !ok || info.GetReason() == "" ||
			info.GetDomain() != Domain {
			t.Errorf("%T: %v", err, plain.Details())
		}
	}
}

func TestReachable(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skip("this machine has no name: ", err)
	}
	for bound, want := range map[string]string{
		"0.0.0.0:7980": name + ":7980", "[::]:7980": name + ":7980", "10.0.0.1:7980": "10.0.0.1:7980",
		"[fd00::1]:7980": "[fd00::1]:7980",
	} {
		if got := reachableAddress(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(bound))); got != want {
			t.Errorf("%s is told as %s", bound, got)
		}
	}
}
