// Package tap shows viewers a sample of the MEPs that a builder unit has built, while the run goes on.
//
// It stands for the spy that a data acquisition has beside its output (docs/tap.md, docs/design/026-interfaces.md). Package
// event/selection decides which events a viewer gets; this package has the queues between the builder unit and the
// viewers.
//
// # What the caller must do, in order
//
//  1. New, once for a process; the Tap outlives runs and builder units.
//  2. The builder unit asks HasViewers for each MEP, which is one atomic load. If there are viewers, it asks whether
//     one of them IsDue, and Offers the MEP, or Skips it.
//  3. A viewer comes with OpenViewer, gets its events by AppendEvents once in a while, and leaves with Close.
//
// # What it does not promise
//
// It does not promise a viewer every event: if the viewer's queue is full, the tap drops and counts the event, and the
// builder unit never waits. It does not promise that a shown event counts: if the builder unit is excluded afterwards,
// another one builds the MEP again, with a higher attempt.
package tap
