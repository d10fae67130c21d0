// Package tap shows a sample of the MEPs that a builder unit has built to whoever looks, while the run goes on.
//
// It stands for the spy that a data acquisition has beside its output (docs/tap.md, docs/design/026-interfaces.md). What
// is shown is decided in event/selection; here are the queues between the builder unit and the viewers.
//
// # What the caller must do, in order
//
//  1. New, once for a process; it outlives runs and builder units.
//  2. The builder unit asks HasViewers for each MEP, which is one atomic load. If somebody looks, it asks
//     whether one of them is Due, and Offers the MEP, or Skips it.
//  3. A viewer comes with View, gets its events by AppendEvents once in a while, and leaves with Close.
//
// # What it does not promise
//
// That a viewer sees an event: what its queue has no room for is dropped and counted, and the builder unit never waits.
// That an event counts: the MEP of a builder unit that is excluded afterwards is built again by another one, with a
// higher attempt.
package tap
