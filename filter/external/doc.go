// Package external passes whole events to filters in processes of users, and takes their decisions: the filter
// process:NAME. A process may be in any language; clients/c and clients/python have its side. The layout is
// docs/format/ring.md, the reasons are in docs/design/053-filters.md; users start with docs/your-filter.md.
//
// It stands for the farm that gets MEPs from the event builder in shared memory (LHCb-EB §IV.B), with the deadline and
// the decisions of the level-1 farm (L1-farm §6).
//
// # What the caller must do, in order
//
//  1. New makes a Pool for a builder unit and a run.
//  2. Serve judges the cases that come, until its context ends. builderunit/sink.FilterSink calls it.
//  3. Stats reads the counters at any time.
//
// # What it does not promise
//
// Ringlet shares only a worker's own memory with its process, but every process of the same user may open that memory.
// Decisions are not checked: if a process rejects everything, everything is rejected.
package external
