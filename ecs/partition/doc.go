// Package partition is run control: the state machine of a whole partition, which is a tree of TagNet and nodes with
// their readout and builder units. It decides which nodes take part, gives them their commands through package nodes,
// keeps the record of every run, and takes its partition up again after it was killed.
//
// It stands for the ECS of LHCb-EB §III.A and §IV.B: components are state machines steered together, a unit
// moves to where there is a spare; and for TagNet-farm §III.B.4: a node is excluded while the others run.
//
// # Core and shell
//
// The states are those of package node/fsm, whose step decides what a command does; ecs/run has the machine of a run.
// selectMembers decides which nodes take part, adoption what a restarted control does, and Report.VerdictWord the
// verdict of a run; all are pure. Partition is the shell, made of parts: members (the nodes that take part, and their
// states outside of runs), checks, the conductor (it carries out the actions of the run's machine, with one goroutine
// that watches the run and one for each step under way), records, snapshots and taps. Each part embeds the control,
// which has the state of the partition.
//
// # What the caller must do, in order
//
//  1. Open the store and a journal, and enter the cluster as "control".
//  2. New; Adopt, which takes up what an earlier control left; then serve the Partition with package ecs/api.
//  3. Close, which leaves the nodes as they are: a run goes on without its control for the time that the configuration
//     grants.
//
// # What it does not promise
//
// A node that was lost in a run is readmitted to it only when its process was started again and has joined the cluster
// (see readmitter). A readout unit cannot be excluded from a run, since no event would be whole: the run ends, and the
// next may begin without it.
package partition
