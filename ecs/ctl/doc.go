// Package ctl is the client of the run control: what `ringlet ctl` does with its words, in a batch and at a terminal
// alike.
//
// It stands for the demand that a shift crew operates a partition without reading its source (after the component state
// machines of LHCb-EB §III.A). Which commands there are, what arguments they take and where they are allowed the
// control says itself, by DescribeFSM: a command that is added there can be given here at once, completed and
// explained. Only what does not steer the partition (status, runs, watch, wait, scan …) is known here.
//
// A caller does, in this order:
//
//  1. Dial a control, with the certificate of a user;
//  2. Session.RunBatch with the words of a command line, Session.RunScript with lines from a pipe, or
//     Session.RunInteractive at a terminal. All three read words by the same parser, and read all of a
//     line before the first command of it is given: a slip of the pen at its end does no harm at its beginning;
//  3. Code of the error is how the program ends; docs/ctl.md lists the codes.
//
// Splitting a line, parsing words, completing them, judging answers and writing tables are pure functions. The shell is
// in session.go, wait.go, interactive.go and scan.go.
//
// It does not promise that a command which was interrupted here has ended there: the control finishes what it has
// begun.
package ctl
