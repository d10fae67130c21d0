// Package topology plans the linear shift over a network: which flows of a phase share links, and in which order of
// nodes no two flows of a phase share one.
//
// It covers the fat-tree placement of LHCb-EB §IV.A: a leaf switch sends a packet to the spine S(p) = p mod spines,
// where p is the port of its destination on the destination's leaf. Senders of one leaf that send to ports of the same
// spine in the same phase share its links. And the torus with dimensional routing (L1-farm §6.3.1, TagNet-farm §II.B):
// first along the row to the column of the destination, then along the column.
//
// A caller does, in this order:
//
//  1. Load a topology file, strictly checked: *config.InvalidError names every problem with its line. KeepFirst and
//     Without leave nodes out;
//  2. Check an order, that of the file or another: in phase p the readout unit at place i sends to the builder unit at
//     place (i+p) mod M; a link with more flows than its capacity conflicts;
//  3. Propose an order, with dummies where a place must stay empty to keep the others in step;
//  4. or NewPlan, which does all of it, for WriteText or JSON.
//
// The proposals are patterns for each kind of network (tree.go, torus.go). They are checked like any other order, in
// every phase, before they are proposed.
//
// It does not promise that no order with fewer dummies exists. It says whether each dummy is needed: whether leaving
// out any one alone brings a conflict. Nor does it know how switches are really configured: ibroute and its like must
// agree with S(p).
package topology
