// Package patiently has the times of the tests, and every wait of a test with its bound.
//
// A test waits for an event, not for a time: a bound only says when it is sure that the event does not come. All such
// times come from here, and one variable of the environment scales them:
//
//	RINGLET_TEST_PATIENCE=3 go test ./...
//
// is for a machine that has three times as much to do as the slowest that the tests are made for. What a test asks of
// the program, such as a time-out of its configuration, is given as Scaled too where a slow machine could exceed it.
// Tests of time itself use testing/synctest, and nothing of this package.
//
// What the caller must do: call from the goroutine of the test, as with Fatal, and never from a bubble of synctest,
// where the time of Long is over at once. Where the wait is over in vain, the test ends and shows what every goroutine
// does, which is what shows why nothing came.
//
// TestNoTestWaitsForEver, at the root, finds the waits of tests that do not go through here. It is for tests alone;
// depguard keeps it out of everything else.
package patiently
