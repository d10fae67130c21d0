// Package ctl is the client of the run control: `ringlet ctl`, for a row of commands, a script or a terminal.
//
// It stands for the demand that a shift crew operates a partition without reading its source (after the component state
// machines of LHCb-EB §III.A). The control describes its commands, their arguments and the states that take them
// (DescribeFSM): a command that is added there can be given, completed and explained here at once. This package itself
// has only the commands that do not steer the partition (status, runs, watch, wait, scan …).
//
// A caller does, in this order:
//
//  1. Dial a control, with the certificate of a user;
//  2. Session.RunBatch with the words of a command line, Session.RunScript with lines from a pipe, or
//     Session.RunInteractive at a terminal. All three have the same parser. It parses a whole line before the first
//     command in it is given: after a typing error at the end of a line, no command of it has been given;
//  3. ExitCode of the error is the exit code of the program; docs/ctl.md lists the codes.
//
// Splitting a line, parsing words, completing them, judging answers and writing tables are pure functions. The shell is
// in session.go, wait.go, interactive.go and scan.go.
//
// It does not promise that an interrupted command has ended in the control: the control finishes a command that it has
// begun.
package ctl
