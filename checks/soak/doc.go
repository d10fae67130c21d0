// Command soak runs a cluster on this machine, makes one run after the other, breaks things meanwhile by a seeded
// plan, and finds out whether what was reported as built is there.
//
// It stands for two ideas of TigerBeetle's simulator: one seed replays everything, and safety comes first (nothing
// wrong ever happens under faults), then liveness (when the faults stop, everything comes right).
//
// The plan is pure: planRun makes settings and faults of a run from a seed and a number, Timeline puts them in order,
// netRules says what the switch does with packets meanwhile. The rest is thin: hosts and processes, an operator who
// gives commands over the API of the run control, an injector that makes the faults, and a judge who compares what the
// records say with what is in the files.
//
// The caller needs the program, built; root, for hosts and disks of their own (package testbed), and the programs
// that test bed asks for, and nft. Without root there are processes on loopback, and no faults of network and disk,
// which it says.
//
// With -hostile there is one run, with front-ends, and strangers who attack it; the order of attacks is drawn from the
// seed.
//
//	bin/soak -for 10m -seed 1 -bin bin/ringlet
//
// Exit code 0: every run was as it had to be. 1: something was not. 2: it could not be made here. 130: it was
// interrupted.
//
// It does not cut the power, and it does not choose the moments at which a packet of one kind is lost: the tests of
// the packages do that.
package main
