// Package invariants holds the switch for checks that are too dear for production
// and too good to leave out of tests.
//
// Enabled is a constant: true in builds with the race detector or with the build tag
// ringlet_invariants, false otherwise, so that the compiler removes what it guards. It
// stands for the Invariants section of the architecture ("checked under race builds, and at
// every stop"), done in the manner of cockroachdb/pebble.
//
// The caller states a condition that only a bug in Ringlet itself can break; input from a
// peer, a file or another process is never an invariant and is answered with an error. On a
// hot path the caller wraps the call in `if invariants.Enabled { … }`, because the
// arguments of Check are evaluated even where it does nothing.
//
// It does not promise that a violated invariant is noticed in a production build.
package invariants
