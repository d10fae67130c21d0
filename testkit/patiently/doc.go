// Package patiently has the time-outs of the tests, and bounded waits for all kinds of events.
//
// A test waits for an event, not for a time: after the time-out the test is sure that the event does not come. All
// time-outs come from here, and an environment variable scales them:
//
//	RINGLET_TEST_PATIENCE=3 go test ./...
//
// is for a machine that is three times slower than the slowest that the tests are made for. A time-out that a test
// configures in the program is Scaled too, if a slow machine could exceed it. Tests of time itself use
// testing/synctest, and nothing of this package.
//
// What the caller must do: call from the goroutine of the test, as with Fatal, and never from a bubble of synctest,
// where LongTimeout passes at once. After the time-out the test fails and prints the stacks of all goroutines, which
// show why the event did not come.
//
// TestNoTestWaitsForEver, at the root, finds waits of tests that do not use this package. It is for tests alone;
// depguard keeps it out of everything else.
package patiently
