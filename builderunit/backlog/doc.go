// Package backlog is the second step of a filter in two steps with a disk between them (LHCb-EB §II: a first filter at
// the full rate, a second one that drains when there is time). Users start with docs/backlog.md;
// docs/design/063-backlog.md has the reasons.
//
// The first step is a run with a filter, which records the events that it accepts. A Drainer reads closed segments of
// that recording, passes each event to a second filter, and writes it to outputs, which are recordings, too. It may
// run beside the run, after it, and again after it was killed.
//
// # What the caller must do, in order
//
//  1. Make a Drainer with New, and call Run once. Run ends when everything is drained and no process writes any more.
//  2. Read the Result, even after an error: drained segments stay drained.
//
// # What holds at any moment
//
//   - Each MEP is written to an output once, or rejected once, however often a process is killed: the Drainer does not
//     judge again what an output or the ledger (recording.Ledger) has.
//   - The Drainer removes a segment only if the run was configured as a backlog, and only when the segment's line of
//     the ledger is on the disk. It writes that line when the copies of the events are on the disk.
package backlog
