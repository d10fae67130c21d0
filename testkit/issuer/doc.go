// Package issuer makes identities of one certificate authority, for tests.
//
// It is for tests alone; depguard keeps it out of everything else.
package issuer

import (
	"testing"
	"time"

	"ringlet/node/certs"
	"ringlet/testkit/must"
)

// New makes an authority, and returns a function that issues identities, valid on this host for an hour.
func New(t testing.TB) func(name string, role certs.Role) *certs.Identity {
	t.Helper()
	ca, err := certs.NewCA(time.Hour)
	must.OK(t, err)
	return func(name string, role certs.Role) *certs.Identity {
		t.Helper()
		id, err := ca.Issue(name, []string{"127.0.0.1"}, role, time.Hour)
		must.OK(t, err)
		return id
	}
}
