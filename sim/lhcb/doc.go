// Package lhcb plays LHCb's event builder at full scale: 320 folded nodes with ports of 200 Gbit/s in a fat tree, which
// go through the phases of a linear shift with or without a barrier.
//
// It stands for LHCb-EB: its scalability test (LHCb-EB §V.A), its barriers (LHCb-EB §III.D) and its network (LHCb-EB
// §IV.A). It also answers for clusters that one does not have yet: faster ports, more nodes.
//
// sim/builder plays the product's scheduler, orders and barriers over the network. Here is what surrounds them: sizes,
// the time that software and messages take, and slow outputs.
//
// What the caller must do: hand Models to study.Study.Run.
//
// # What is modelled, in one page
//
//   - The network is that of sim/builder, without loss: a fat tree in which a packet goes up by link p mod (spines ×
//     links), where p is the port of the destination on its leaf. A node's part for itself passes through its own card.
//   - Sizes go ahead of a round, and the windows come back; that takes two messages' time and nothing of the links.
//   - A message of the barrier takes processor time at its sender and its receiver, one after the other, and flies for
//     a while. It does not meet data.
//   - Before it sends, a node's software takes a time, to which a random one is added: the jitter of an operating
//     system. Without any, nodes that never wait for each other would stay in step for ever.
//   - With a barrier a phase ends with the acknowledgement of its write, as in the product. Without one, the node gets
//     the next write ready meanwhile, and has so many under way at most.
//
// # What it does not promise
//
// Nothing of the memory, the PCIe bus and the filter processes of a node. Packets within a segment do not mix with
// those of others; sim/documents/figures/common-lhcb.yaml says what that changes. Builder units that ask (pull) go by a
// simple rule of sim/builder: parts of the oldest MEP, from the node of their own number on.
package lhcb
