// Package component has the building blocks of network models: components that take time, hold bytes, or block others.
//
// They are the resources in the documents: the buses and their arbitration (L1-farm, TagNet-farm, SCI-bridge), receive
// queues and retries (L1-farm), the switches of a fat tree (LHCb-EB), and cross-points with credits (NIC-crossbar). SCI
// rings are in sim/documents/sci.
//
//   - [Queue]: first in, first out, with a limit; a full queue refuses, and counts.
//   - [Bus]: one transfer at a time; it asks its clients in turn, priority clients first. PCI, B-Link, an output of a
//     switch.
//   - [Port]: an output of a switch or a NIC with a finite buffer. A full buffer blocks the ports before it, or drops.
//   - [Crossbar]: cross-point buffers with round-robin outputs, and credits that return on the links.
//
// # How components are put together
//
// A caller makes components with a *sim.Sim, connects them, and calls what begins something (Queue.Put, Port.Receive).
// A component calls back by a sim.Handler, or by the interface of its user ([Client], [Receiver]). A caller that frees
// space for a bus or an output, or brings it work, kicks it: kick looks for something to do, and may be called at any
// time.
//
// Each component counts what came, what left, what it refused and what is inside, so a test can check that nothing was
// lost.
//
// Components know neither addresses nor protocols: the model puts the route into the packet.
package component
