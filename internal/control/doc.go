// Package control takes a set of nodes through one run: it finds them, configures, starts, watches and stops them, runs the
// TagNet scheduler meanwhile, and closes the accounts.
//
// It stands for the part of the ECS (seed 002, L13) that a single run needs; the run control of a partition, its API and its
// records come on top of it (ecs/README.md).
//
// What the caller must do, in this order: complete a configuration; give Run an identity called "control", and a Spawner if the
// nodes are to be processes of this machine (otherwise nodes join by themselves); end the run by its context, which drains it;
// look at Report.Verdict. Segments of killed nodes are the caller's to sweep (shmem.Sweep).
//
// What Run promises: from the moment it speaks to nodes there is a Report with a typed cause of the end, whatever happens to
// them; the nodes are at rest, spawned ones have ended, and what the dead among them left of the output is removed. The cause is
// the fault with the closest witness: docs/design/010-node-and-control.md. What it does not promise: to go on when a node is
// lost. The run then ends, naming it, and leaves no output.
package control
