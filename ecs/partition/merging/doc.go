// Package merging merges the sample streams of several builder units into one. It is a pure core: messages and times go
// in, a merged message comes out.
//
// It stands for nothing in the founding documents; docs/design/026-interfaces.md says why the streams meet in the run
// control. The partition has the connections and the clock.
//
// # What the caller must do, in order
//
//  1. New with the viewer's request; PerBuilderRate for the rate that each builder unit is asked for.
//  2. BeginStream when the stream of a builder unit is opened, Add with each of its messages, EndStream when it ends.
//  3. Next several times a second, for the message to the viewer.
//
// It does not promise an order among builder units.
package merging
