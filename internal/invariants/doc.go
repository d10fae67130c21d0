// Package invariants switches on checks in tests that cost too much in production.
//
// Enabled is a constant: true in builds with the race detector or with the build tag
// ringlet_invariants, false otherwise, so that the compiler removes the code that it
// guards. It is modelled on cockroachdb/pebble.
//
// The caller states a condition that only a bug in Ringlet itself can break. Input from a
// peer, a file or another process is never an invariant: a wrong one gets an error. On a
// hot path the caller wraps the call in `if invariants.Enabled { … }`, since the
// arguments of Check are evaluated even if Check does nothing.
//
// A production build does not notice a broken invariant.
package invariants
