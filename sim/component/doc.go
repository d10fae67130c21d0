// Package component holds what models of networks are made of: things that take time, hold bytes, or make others wait.
//
// It stands for the resources in the documents: the buses and their arbitration (L1-farm, TagNet-farm, SCI-bridge),
// receive queues and retries (L1-farm), the switches of a fat tree (LHCb-EB), and cross-points with credits
// (NIC-crossbar). SCI rings stand in sim/documents/sci.
//
//   - [Queue]: first in, first out, with a limit; what finds it full is refused and counted.
//   - [Bus]: one transfer at a time; clients are asked in turn, the favoured ones first. PCI, B-Link, an output of a
//     switch.
//   - [Port]: an output of a switch or a NIC with a finite buffer. Full buffers push back (credits), or drop.
//   - [Crossbar]: cross-point buffers with round-robin outputs, and credits that go back on the links.
//
// # How components are put together
//
// A caller makes components with a *sim.Sim, connects them, and calls what begins something (Queue.Put, Port.Receive).
// A component calls back by a sim.Handler, or by the interface of its user ([Client], [Receiver]). Whoever makes room
// for a bus or an output, or brings it work, kicks it: kick looks for something to do and is free to call.
//
// Each component counts what came, went, was refused and is inside, so a test can say: nothing was lost.
//
// What it does not promise: components know neither addresses nor protocols. A route is in the packet, made by the
// model.
package component
