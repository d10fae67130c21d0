// Package fault decides on every fault in a partition: whether a run tolerates it, what its root cause is, and what an
// operator does about it.
//
// It stands for LHCb-EB §III.A and §IV.B: components are steered together, and a run goes on without a lost unit if a
// policy tolerates the loss; and for the rule of Ringlet's architecture that a fault is told once, with its cause.
//
// # Core and shell
//
// Core is pure: Observe takes an observation of a component and returns an Action for the caller; Cause and Losses say
// what is known so far. Core has no I/O, goroutine or clock. Package nodes is its shell.
//
// # How a cause is found
//
// One broken node makes many observations: when the process of n2 is killed, n0 and n1 lose their links to it, give the
// run up and close their own links, and so look broken to each other. Therefore each observation has a Kind. An ended
// process counts before a component's report on itself, and that before what other nodes report of it. A node that gave
// up and named another one is not at fault, and a link that its other end closed on purpose proves nothing. Dead links
// remain. If several nodes miss the same node, or the control misses it too, that node is the cause; if two nodes miss
// each other and the control hears both, the link between them is.
//
// # What the caller must do, in order
//
//  1. New; SetLocation with the host and process of each node. AcceptReports when the nodes report of the present view.
//  2. SetView and BeginRun with each run. NoteReport with every report of a node.
//  3. Observe each observation, and do what the Action says.
//  4. Wait until IsConclusive, then Cause. IgnoreFaults while nodes are ended on purpose; Clear afterwards.
//
// # What it does not promise
//
// It finds no cause without an observation of it: where two nodes miss each other, it cannot tell which end of the
// cable is bad.
package fault
