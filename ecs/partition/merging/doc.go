// Package merging makes one stream of samples of those of several builder units, for one viewer. It is a core: messages
// and times go in, a message comes out.
//
// It stands for nothing in the founding documents; docs/design/026-interfaces.md says why the streams meet in the run
// control. The partition has the connections and the clock.
//
// # What the caller must do, in order
//
//  1. New with what the viewer asked for, and PerBuilderRate for what each builder unit is to be asked for.
//  2. BeginStream when a builder unit's stream begins, Add for each of its messages, EndStream when it ends, and why.
//  3. Next once in a while, for the message that the viewer gets.
//
// It does not promise an order among builder units.
package merging
