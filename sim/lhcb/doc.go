// Package lhcb simulates LHCb's event builder at full scale: 320 folded nodes with ports of 200 Gbit/s in a fat tree,
// which go through the phases of a linear shift with or without a barrier.
//
// It covers LHCb-EB: its scalability test (LHCb-EB §V.A), its barriers (LHCb-EB §III.D) and its network (LHCb-EB
// §IV.A). It also answers for clusters that one does not have yet: faster ports, more nodes.
//
// sim/builder runs the product's scheduler, orders and barriers over the network. This package adds sizes, the times of
// software and messages, and slow outputs.
//
// What the caller must do: hand Models to study.Study.Run.
//
// # What is modelled, in one page
//
//   - The network is that of sim/builder, without loss: a fat tree in which a packet goes up by link p mod (spines ×
//     links), where p is the port of the destination on its leaf. A node's part for itself passes through its own card.
//   - Sizes go ahead of a round, and the windows return; that takes the time of two messages and no bandwidth.
//   - A message of the barrier takes processor time at its sender and its receiver, one message after the other, and a
//     delay between them. It does not share links with data.
//   - Before it sends, a node's software takes a fixed time and a random one, the jitter of an operating system.
//     Without jitter, nodes that never wait for each other would stay in step forever.
//   - With a barrier a phase ends with the acknowledgement of its write, as in the product. Without one, the node
//     prepares the next write meanwhile, and has a bounded number under way.
//
// # What it does not promise
//
// Memory, the PCIe bus and the filter processes of a node are not modelled. Packets within a segment do not mix with
// those of other segments; sim/documents/figures/common-lhcb.yaml says what that changes. Builder units that ask (pull)
// follow a simple rule of sim/builder: parts of the oldest MEP, first from the node with their own number.
package lhcb
