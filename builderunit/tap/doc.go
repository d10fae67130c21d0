// Package tap shows a sample of the MEPs that a builder unit has built to viewers while the run goes on.
//
// It stands for the spy that a data acquisition has beside its output (docs/tap.md, docs/design/026-interfaces.md).
// Package event/selection decides which events are shown; package tap has the queues between the builder unit and the
// viewers.
//
// # What the caller must do, in order
//
//  1. Call New once for a process; the Tap outlives runs and builder units.
//  2. The builder unit calls HasViewers for each MEP, which is one atomic load. If there are viewers, it calls IsDue,
//     and then Offer or Skip.
//  3. A viewer is made by OpenViewer, takes its events by AppendEvents once in a while, and ends with Close.
//
// # What it does not promise
//
// A viewer may miss events: if its queue is full, they are dropped and counted, and the builder unit never waits. A
// shown event may not count: if a builder unit is excluded afterwards, another one builds its MEP again, with a higher
// attempt.
package tap
