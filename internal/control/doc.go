// Package control takes a set of nodes through one run: it finds them, configures, starts, watches and stops them, runs the
// TagNet scheduler meanwhile, and closes the accounts.
//
// It stands for the part of the ECS (seed 002, L13) that a single run needs; the run control of a partition, its API and its
// records come on top of it (ecs/README.md).
//
// What the caller must do: complete a configuration, give Run an identity called "control", and a Spawner if the nodes are to
// be processes of this machine; otherwise nodes join by themselves. What Run promises: it returns a Report with a typed cause of
// the end, whatever happens to the nodes; spawned processes, their segments and temporaries are gone by then. What it does not:
// to go on when a node is lost. The run then ends, naming it.
package control
