// Package partition is run control: the state machine of a whole partition, which is a tree of TagNet and nodes with
// their readout and builder units. It decides who takes part, gives the nodes their commands through package nodes,
// keeps the record of every run, and finds its partition again after it was killed.
//
// It stands for the ECS of LHCb-EB §III.A and §IV.B: components are state machines steered together, a unit
// moves to where there is a spare; and for TagNet-farm §III.B.4: a node is excluded while the others run.
//
// # Core and shell
//
// The states are those of package node/fsm, whose step decides what a command does; ecs/run has the machine of a run.
// selectMembers decides who takes part, adoption what a control does that comes back, and Report.VerdictWord what a run
// was worth; all are pure. Partition is the shell, made of parts: members (who takes part, and their states outside of
// runs), checks, the conductor (which carries out what the machine of a run says, with one goroutine that looks after
// the run and one for each step under way), records, snapshots and taps. All have the control: how the partition is.
//
// # What the caller must do, in order
//
//  1. Open the store and a journal, and enter the cluster as "control".
//  2. New; Adopt, which finds what an earlier control had; then serve it, with package ecs/api.
//  3. Close, which leaves the nodes as they are: a run goes on without its control for the time that the configuration
//     grants.
//
// # What it does not promise
//
// A node that was lost in a run takes no part in it again, since its links are gone; it does from the next configure
// on. A readout unit cannot be excluded from a run, since no event would be whole: the run ends, and the next may begin
// without it.
package partition
