// Package topology plans the linear shift over a network: which links the flows of a phase share, and in which order of
// nodes none of them meet.
//
// It stands for LHCb-EB §IV.A, fat-tree placement: a switch leaf sends a packet to the spine S(p) = p mod spines,
// where p is the port of its destination on the destination's leaf. Senders of one leaf that send to ports of the same
// spine in the same phase share its links. And for the torus with dimensional routing (L1-farm §6.3.1, TagNet-farm
// §II.B): first along the row to the column of the destination, then along the column.
//
// A caller does, in this order:
//
//  1. Load a topology file, strictly checked: *config.InvalidError names every problem with its line. KeepFirst and
//     Without leave nodes out;
//  2. Check an order, as the file gives it or any other: in phase p the readout unit at place i sends to the builder
//     unit at place (i+p) mod M, and a link conflicts that carries more flows than it is made for;
//  3. Propose an order, with dummies where a place must stay empty to keep the others in step;
//  4. or NewPlan, which is all of it, for WriteText or JSON.
//
// The proposals are patterns of each kind of network (tree.go, torus.go), and are checked like any other order before
// they are proposed: what is called free of conflicts was counted, in every phase.
//
// What it does not promise: that no order with fewer dummies exists. It says whether each of them is needed, in the
// sense that leaving out any one alone brings a conflict. Nor does it know how switches are really configured: S(p) is
// what ibroute and its like must say.
package topology
