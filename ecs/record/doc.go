// Package record keeps what must outlive the run control: the record of every run, run numbers, the audit log, and the
// little that a control which was killed has to know when it comes back.
//
// It stands for LHCb-EB §III.A: a run is looked up, years later, with the
// configuration it had, its times, its accounts and the cause of its end.
//
// The caller
//
//  1. opens the file of one partition with Open, which one process at a time can;
//  2. takes a number with NextRun before it tells any node of the run, and from then on Puts the record as it grows:
//     each Put replaces the one before. Events are given to AddEvent and to nothing else; Put leaves them as they are;
//  3. closes the record by a Put with a verdict and stop_done. A closed record is never changed again, but for what it
//     says itself that it misses: nodes whose output was not read, which Complete adds when they are;
//  4. after a start looks with OpenRuns for runs that an earlier control left behind, and gives each its end;
//  5. calls Close.
//
// Every call that changes something is one transaction, on disk when the call returns: a process killed at any moment
// leaves the file as it was before the transaction or after it. A number that NextRun returned is never returned again.
// Methods may be called from any goroutine.
//
// Each value has a checksum. One that is damaged is a DamagedError that names it; it is told to the log once, is
// skipped in lists, which say so beside it, and hurts no other. The layout is drawn in docs/format/record.md.
//
// It does not promise to survive the loss of the file, nor a disk that says it has written what it has not. Events of a
// run and the audit log are bounded; what did not fit is said where it is missing.
package record
