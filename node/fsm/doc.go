// Package fsm is the state machine that every component of Ringlet obeys: a
// node, a readout unit, a builder unit, and later the partition as a whole.
//
// It stands for LHCb-EB §III.A: components
// are state machines steered by the experiment control system; and for the
// section Control of Ringlet's architecture:
//
//	Offline –load→ NotReady –configure→ Ready –start→ Running ⇄ Paused –stop→ Ready
//	Ready –reset→ NotReady –unload→ Offline; any → Error –recover→ NotReady
//
// Between any two of these states stands an explicit in-between state (Loading,
// Configuring, …) with a time-out. Stop and Reset always finish: when their
// time-out strikes they force their way, and the status says so. DEGRADED and
// included are flags beside the state. docs/design/004-component-states.md has
// the whole table, printed from [Markdown].
//
// # Core and shell
//
// machine.step decides: a status and an input give the next status and the
// actions to be carried out. It has no I/O, goroutine or clock. [Runner] is the
// thin shell that carries them out with the functions it is given.
//
// # What the caller of step must do, in order
//
//  1. Keep the status; begin with the zero Status (Offline).
//  2. Feed every input: commands, the end of work (Done, Failed) with the number
//     of its transition, time-outs with the number they were armed with, faults.
//  3. Carry out the actions in the order given: disarm the timer; abandon what is
//     under way; do the work of a command, after giving up the work before it;
//     arm the timer, publish the status.
//
// # What the caller of a Runner must do, in order
//
//  1. New(name, actions, options); the functions must return when their context
//     ends.
//  2. Command (or Submit) as the run control says; Fail for what breaks outside
//     of a transition; Degrade and Restore for what hurts but does not stop.
//  3. Watch for the status.
//  4. Stop, then Close. Close alone gives up whatever is under way.
//
// # What it does not promise
//
// It cannot end a function that ignores its context: after a forced Stop that
// function may still be running. No other action function starts beside it, so
// the next command then waits for it, and fails by its own time-out. A watcher
// sees the newest status always but not every one; the field Change shows gaps.
// The machine does not know what a component is configured with: Configure in
// Ready is accepted as done, and whoever holds the configuration must refuse a
// different one.
package fsm
