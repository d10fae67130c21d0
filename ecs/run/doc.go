// Package run is the machine of a run of a partition: what happens to the run goes in, what is to be done comes out.
// How far a run is, why it ends and what is written down of it stands here and nowhere else.
//
// It stands for the run of the ECS of LHCb-EB §III.A, which begins and ends on all units together. It is a pure core:
// State.Step has no I/O, no goroutine and no clock. Its table is printed in docs/design/010-runs.md. A
// control that comes back starts the same machine from the record of the run.
//
// # What the caller must do, in order
//
//  1. Step with Open, when the run has its number and its record; or with what Find says, for a run that an earlier
//     control has begun.
//  2. Carry the actions out, in order. When the last of them is awaited (Action.IsAwaited), Step with Done or Failed
//     and the ticket of the State that it came from; an answer that comes late is ignored.
//  3. Step with whatever else happens meanwhile, from any goroutine, one at a time. Nothing more is to be done once it
//     is Closed.
//
// # What it does not promise
//
// It knows no nodes and no MEPs: whether everything issued has its outcome, and what broke, it is told.
package run
