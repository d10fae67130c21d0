// Package run is the state machine of one run of a partition. Its inputs are events in the life of the run, such as a
// stop or a fault; its outputs are the actions that the control carries out. The run's phase, the reason for its end
// and the cause in its record are kept here and nowhere else.
//
// It stands for the run of the ECS of LHCb-EB §III.A, which begins and ends on all units together. It is a pure core:
// State.Step has no I/O, no goroutine and no clock. docs/design/010-runs.md prints its table. A control that was
// restarted starts the same machine from the record of the run.
//
// # What the caller must do, in order
//
//  1. Step with Open when the run has its number and its record; for a run that an earlier control began, Step with
//     the Input that Find returns.
//  2. Carry the actions out, in order. When the last one is awaited (Action.IsAwaited), Step with Done or Failed and
//     with the Ticket of the State that Step returned with the actions; the machine ignores an answer to an earlier
//     phase.
//  3. Step with everything else that happens meanwhile, from any goroutine, one call at a time. In the phase Closed
//     the machine returns no more actions.
//
// # What it does not promise
//
// The machine knows no nodes and no MEPs: the caller tells it when every issued MEP has its outcome, and what broke.
package run
