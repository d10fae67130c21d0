// Package control takes a set of nodes through runs: it connects to them, gives them their commands, runs the TagNet scheduler or
// steers it where it lives, watches what breaks, and closes the accounts.
//
// It stands for the part of the ECS (seed 002, L13) that speaks with nodes. The state machine of a partition, its API and its records
// come on top of it: package ecs/partition. `ringlet run` uses it alone.
//
// What the caller of Once must do, in this order: complete a configuration; give it an identity called "control", and a Spawner if the
// nodes are to be processes of this machine (otherwise nodes join by themselves); end the run by its context, which drains it;
// look at Report.Verdict. Segments of killed nodes are the caller's to sweep (shmem.Sweep).
//
// What the caller of a Crew must do, in this order: NewCrew; Gather or Meet; Load; Configure; Begin, which gives a Run, as often as
// wanted; Reset; Dismiss, or Release to leave the nodes as they are. With a Run: wait for Drained or Struck; Drain to end it; Finish
// for the report, in every case; Close. After a fault: Clear.
//
// What it promises: from the moment it speaks to nodes there is a Report with a typed cause of the end, whatever happens to them; the
// nodes are at rest after Dismiss, spawned ones have ended, and what the dead among them left of the output is removed. The cause is
// the fault with the closest witness: docs/design/010-node-and-control.md. A lost builder unit that the configuration's policy bears
// is taken out of the schedule, and the run goes on; any other loss ends the run, naming who was lost, and leaves no output.
package nodes
