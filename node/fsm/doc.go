// Package fsm is the state machine that every component of Ringlet obeys: a node, a readout unit, a builder unit, and
// the partition as a whole.
//
// It stands for LHCb-EB §III.A, where components are state machines steered by the experiment control system, and for
// the section Control of Ringlet's architecture:
//
//	Offline –load→ NotReady –configure→ Ready –start→ Running ⇄ Paused –stop→ Ready
//	Ready –reset→ NotReady –unload→ Offline; any → Error –recover→ NotReady
//
// Between any two of these states is an explicit in-between state (Loading, Configuring, …) with a time-out. Stop and
// Reset always finish: when their time-out expires they go by force, and the status says so. DEGRADED and included are
// flags beside the state. docs/design/004-component-states.md has the whole table, printed by [Timeouts.Markdown].
//
// # Core and shell
//
// machine.step decides: from a status and an input it makes the next status and a list of actions. It has no I/O,
// goroutine or clock. [Runner] is the thin shell that carries out the actions with the component's functions.
//
// # What the caller of step must do, in order
//
//  1. Keep the status; begin with the zero Status (Offline).
//  2. Pass every input: commands, the end of work (Done, Failed) with the number of its transition, time-outs with the
//     number that they were armed with, faults.
//  3. Carry out the actions in order: disarm the timer; abandon the work under way; do the work of a command, after the
//     work before it was given up; arm the timer; publish the status.
//
// # What the caller of a Runner must do, in order
//
//  1. New(name, actions, options); the functions must return when their context ends.
//  2. Command (or Submit) for each command of the run control; Fail for a fault outside of a transition; Degrade and
//     Restore for a fault that does not stop the component.
//  3. Watch for the status.
//  4. Stop, then Close. Close alone gives up the work under way.
//
// # What it does not promise
//
// It cannot end a function that ignores its context: after a forced Stop that function may still be running. No other
// action function starts beside it, so the next command waits for it, and fails by its own time-out. A watcher always
// sees the newest status, but not every one; the field Change shows gaps. The machine does not know the component's
// configuration: it accepts Configure in Ready as done, so the owner of the configuration must refuse a different one.
package fsm
