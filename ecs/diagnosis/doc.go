// Package diagnosis has the alarms of a partition: rules over live figures. Each rule has a condition, a sentence on
// what is wrong, with names and numbers, and an advice.
//
// It stands for the demand that a shift crew runs Ringlet without reading its source: an operator who sees a rate fall
// need not know which counter says why. The founding documents say what to look for: the readout units that hold the
// phases (LHCb-EB §III.D), buffers that run full one after the other (TagNet-farm §IV.B), retransmissions (TagNet-farm
// §IV.E.2), clocks if phases end by time (LHCb-EB §II.A).
//
// The package is pure: no I/O, no goroutine, no clock. What the caller must do: New with the Settings, then Update with
// each snapshot of ecs/figures and the tree of components, in the order of time, one goroutine at a time. Update
// returns the alarms for the snapshot, and the changes for the journal.
//
// An alarm goes on when its condition has held for the rule's Hold, and off when the condition has not held for
// clearDelay: a figure that swings about its bound makes one alarm. docs/diagnosis.md lists all rules, generated from
// here.
//
// What it does not promise: a root cause. Several alarms at a time often come from one fault; the worst is the first.
package diagnosis
