// Package fault decides on everything that breaks in a partition: whether a run tolerates it, what its cause is, and
// what to do about it.
//
// It stands for LHCb-EB §III.A and §IV.B: components are steered together, and a unit that is lost is done
// without where that is tolerated; and for the invariant of Ringlet's architecture that a fault is told once, with its
// cause.
//
// # Core and shell
//
// Core is a step function over an account: Observe takes what somebody has seen of a component and returns what is to
// be done; Cause and Losses are what is known so far. It has no I/O, goroutine or clock. Package nodes is its shell.
//
// # How a cause is found
//
// A broken node is seen by many, and most of them break, too: a node whose peer is gone gives the run up, closes its
// links, and so looks broken to the others. So what is seen has a Kind. A process that has ended comes before a
// component's word on itself, and that before what others say of it. Among these, nobody is at fault who has said why
// it has given up, and a link that its other end has closed on purpose proves nothing. What remains are links that
// went dead: one that several nodes miss, or that the control misses too, is named; where two nodes miss each other
// and the control hears both, the link between them is.
//
// # What the caller must do, in order
//
//  1. New; SetLocation where nodes run: host and process. AcceptReports once what nodes say is of this view.
//  2. SetView and BeginRun with each run. NoteReport with every report of a node.
//  3. Observe whatever is seen, and do what the Action says.
//  4. Wait until Conclusive, then Cause. IgnoreFaults while nodes are ended on purpose; Clear or ClearIfIgnoring after.
//
// # What it does not promise
//
// A cause that nobody has seen: where two nodes miss each other, nobody can tell which end of the cable is bad.
package fault
