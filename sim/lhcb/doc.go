// Package lhcb plays LHCb's event builder at full scale: 320 folded nodes with ports of 200 Gbit/s in a fat tree, which
// go through the phases of a linear shift with or without a barrier.
//
// It stands for document 002, chapters III to V: its scalability test (figs. 10 and 12), its barriers (III.D) and its
// network (IV.A). It also answers for clusters that one does not have yet: faster ports, more nodes.
//
// The decisions are those of the product, unchanged: tagnet.Core gives MEPs to builder units, the order of the
// discipline (readoutunit.Shift and others) says when a readout unit sends what, and barrier.Core who waits for whom.
// Here is only what surrounds them: the network of switches without loss, the time that software and messages take.
//
// What the caller must do: hand Models to study.Study.Run.
//
// # What is modelled, in one page
//
//   - A node has one port. The part of a MEP that it sends in a phase is cut into segments, which stand for many
//     packets each; they go through the ports of the switches on their way (part.Port): finite buffers, cut-through,
//     and a segment that the next port has no room for holds up all that are behind it. So two senders to one port
//     share it, and who shares a link with them waits too.
//   - The way is that of the document: up by link p mod (spines × links), where p is the port of the destination on
//     its leaf, and down from there. A node's part for itself passes through its own card.
//   - Sizes go ahead of a round, and the windows come back; that takes two messages' time and nothing of the links.
//   - A message of the barrier takes processor time at its sender and its receiver, one after the other, and flies for
//     a while. It does not meet data.
//   - Before it sends, a node's software takes a time, to which an exponential one is added: the jitter of an operating
//     system. Without any, nodes that never wait for each other would stay in step for ever.
//   - With a barrier a phase ends with the acknowledgement of its write, as in the product. Without one, the node gets
//     the next write ready meanwhile, and has so many under way at most.
//
// # What it does not promise
//
// Nothing of the memory, the PCIe bus and the filter processes of a node. Packets within a segment do not mix with
// those of others; sim/figures/common-lhcb.yaml says what that changes. Builder units that ask (pull) go by a simple
// rule of this room, not by the product's: parts of the oldest MEP, from the node of their own number on.
package lhcb
