// Package record keeps what must outlive the run control: the record of every run, run numbers, the audit log, and the
// state that a restarted control needs.
//
// It stands for LHCb-EB §III.A: years later, a run can be looked up with its configuration, its times, its accounts and
// the cause of its end.
//
// The caller
//
//  1. opens the file of one partition with Open, which one process at a time can have open;
//  2. takes a number with NextRun before it tells any node of the run, and then writes the growing record with Put:
//     each Put replaces the one before. Events go to AddEvent; Put leaves them as they are;
//  3. closes the record by a Put with a verdict and stop_done. A closed record is never changed again, except by
//     CompleteRun: it adds the output of nodes that the record lists as unread;
//  4. after a start closes the runs of OpenRuns, which an earlier control left open;
//  5. calls Close.
//
// Every call that changes something is one transaction, which is on disk when the call returns: a process that is
// killed at any moment leaves the file as before the transaction or as after it. NextRun never returns the same number
// twice. Methods may be called from any goroutine.
//
// Each value has a checksum. Reading a damaged one is a DamagedError that names it; the store logs it once, and lists
// skip it and report it beside the sound ones. docs/format/record.md has the layout.
//
// It does not promise to survive the loss of the file, nor a disk that reports writes that it has not done. Events of a
// run and the audit log are bounded; an entry says how many did not fit.
package record
