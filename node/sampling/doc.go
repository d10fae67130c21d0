// Package sampling decides when counters are read, and keeps the samples until its caller drains them.
//
// It stands for NIC-crossbar §3.1.4: bandwidth sampled at an interval, 2,048 samples. It is a core: the caller passes
// times and gets rows for values. The node has the clock and the counters (docs/design/029-figures.md).
//
// # What the caller must do, in order
//
//  1. CheckRequest, and New with the number of columns.
//  2. BeginSample at the times that NextDue names: it returns the row for the values of a sample, or nil.
//  3. Drain once in a while, for the samples read since.
//  4. End when Done says so.
//
// # What it does not promise
//
// It has no lock: only one goroutine may call it at a time. A sample whose time the caller missed is not made up for,
// but counted as late. If the ring is full, the oldest sample gives way to a new one and is counted as missed. Only New
// allocates.
package sampling
