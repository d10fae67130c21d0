// Package sampling decides when counters are read, and keeps what was read until somebody takes it.
//
// It stands for NIC-crossbar §3.1.4: bandwidth sampled at an interval, 2,048 samples. It is a core: times
// go in, and places for values come out. The node has the clock and the counters (docs/design/029-figures.md).
//
// # What the caller must do, in order
//
//  1. Check the question, and New with the number of columns.
//  2. BeginSample at the times that NextDue names: it gives the row that the values of a sample belong into, or nil.
//  3. Drain once in a while, for what was read since.
//  4. End when Done says so.
//
// # What it does not promise
//
// It has no lock: one goroutine at a time. A sample that was due while the caller did something else is not made up
// for; it is counted as late. Samples that nobody has taken give way to new ones, and are counted as missed. Nothing
// but New allocates.
package sampling
