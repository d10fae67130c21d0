// Package external hands whole events to filters that are processes of others, and takes their decisions: the filter
// process:NAME. A process is in any language; clients/c and clients/python have its side. The layout is
// docs/format/ring.md, the reasons are docs/design/053-filters.md, and docs/your-filter.md leads a user to it.
//
// It stands for the farm that gets MEPs from the event builder in shared memory (LHCb-EB §IV.B), with the deadline and
// the decisions of the level-1 farm (L1-farm §6).
//
// # What the caller must do, in order
//
//  1. New makes a Pool for a builder unit and a run.
//  2. Serve judges the cases that come, until its context is done. builderunit/sink.FilterSink does that.
//  3. Stats reads the counters at any time.
//
// # What it does not promise
//
// A process can read the memory of its own worker alone, but it can read all of that, and every process of the same
// user may open it. Decisions are believed: a process that rejects everything rejects everything.
package external
