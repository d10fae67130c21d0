// Package backlog is the second step of a filter in two steps, with a disk between them (LHCb-EB §II: a first filter
// at the full rate, a second one that drains when there is time). docs/backlog.md leads a user to it,
// docs/design/063-backlog.md has the reasons.
//
// The first step is a run with a filter, which records what it keeps. A Drainer reads closed segments of that
// recording, has a second filter judge each event, and gives it to outputs, which are recordings too. It may run beside
// the run, after it, and again after it was killed.
//
// # What the caller must do, in order
//
//  1. Make a Drainer with New, and call Run once. It ends when everything is drained and nobody writes any more.
//  2. Read the Result, after an error too: what is drained is drained.
//
// # What holds at any moment
//
//   - Each MEP goes to an output once, or was rejected once, however often a process is killed: what stands in an
//     output or in the ledger (recording.Ledger) is not judged again.
//   - A segment is removed only if the run was told that it is a backlog, and only when the disk has the ledger's line
//     on it. That is written when the disk has the events' copies.
package backlog
