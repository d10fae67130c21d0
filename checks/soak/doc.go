// Command soak runs a cluster on this machine, makes one run after the other, injects faults by a seeded plan, and
// checks that all events reported as built are in the files.
//
// It follows two ideas of TigerBeetle's simulator: one seed determines the whole plan; and safety comes first (nothing
// wrong happens under faults), then liveness (when the faults stop, the cluster recovers).
//
// The plan is pure: planRun makes the settings and faults of a run from a seed and a number, timeline puts the faults
// in order, netRules makes the rules of the switch for the current faults. The rest is thin: hosts and processes, an
// operator that gives commands over the API of the run control, an injector of faults, and a judge that compares the
// records with the files.
//
// The user needs the built program; root, for hosts and disks (package testbed); and the programs of the test bed and
// nft. Without root the processes run on loopback, without faults of network and disk, which soak prints.
//
// With -hostile there is one run with front-ends, and strangers that attack it, in an order drawn from the seed.
//
//	bin/soak -for 10m -seed 1 -bin bin/ringlet
//
// Exit code 0: every run was as it had to be. 1: a run or the end was not. 2: wrong flags, or the machine lacks
// something. 130: interrupted.
//
// It does not cut the power, and it does not select single packets to lose: the tests of the packages do that.
package main
