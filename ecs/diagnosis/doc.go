// Package diagnosis says what is wrong with a partition and what to do about it: rules over live figures, each a
// condition, a sentence of what is wrong, with names and numbers, and a sentence of what to do.
//
// It stands for the demand that a shift crew runs Ringlet without reading its source: whoever sees a number fall must
// not have to know which of the counters says why. The founding documents say what to look for: who holds the phases
// (LHCb-EB §III.D), buffers that run full one after the other (TagNet-farm §IV.B), what is sent again (TagNet-farm
// §IV.E.2), clocks where phases end by time (LHCb-EB §II.A).
//
// The package is pure: no I/O, no goroutine, no clock. What the caller must do: New with what is known beforehand, then
// Look at each snapshot of ecs/figures together with the tree of components, in the order they were taken, one
// goroutine at a time. Look puts nothing anywhere: its alarms are for the snapshot, its changes for the events.
//
// An alarm is on when its condition has held for as long as its rule says, and off when it has not for clearDelay: a
// figure that swings about its bound makes one alarm. docs/diagnosis.md lists all rules, printed from here.
//
// What it does not promise: a cause. A rule says what it sees; several of them on at a time are often one fault, and
// the worst stands first.
package diagnosis
