// Package tagfarm simulates the farm of TagNet-farm, in which a scheduler and a control ring decide which node may
// send: its prototype (TagNet-farm §IV.A: two feeding nodes, twelve computing nodes, a torus of 8 × 2) and its 3-D
// torus (TagNet-farm §V: 24 feeding nodes, 275 computing nodes). It also has the two builders that the document
// compares with, in which the receivers pull (CMS and ATLAS, TagNet-farm §II.G and §II.H).
//
// # The path of an event
//
//  1. A trigger reaches the scheduler. The product's own core.Allocator takes it as a MEP of one event. Its turn sets,
//     one for each torus column, choose the computing node; the core has no code for this package.
//  2. The scheduler writes a message into its transmit FIFO. The control ring carries it in 16-bit words to the first
//     feeding node, where it queues.
//  3. The feeding node's DMA engine gets the PCI bus, and writes bursts of at most 128 B into the SCI card. When it is
//     done, the message goes on to the next feeding node, and from the last one back to the scheduler.
//  4. The packets cross the torus (sim/documents/sci) into a buffer of the computing node. When all are there, the
//     event is built.
//  5. A processor of the node works on the event; then the node sends the feedback, by which the core frees the buffer.
//
// The core runs in two ways. Without its tag ring, a token is the control message, as in the document's prototype, in
// which a computing node may have several messages under way. With its tag ring and by-pass the core launches tags and
// checks those that return; busy feeding nodes pass a tag on unserved, and it goes round again.
//
// # What is left out
//
// The PCI bus of a computing node carries only what the network writes; its processor's own accesses, the feedback's
// path over that bus, and read transactions are not modelled. A feeding node's buffers for events have no limit: the
// document stops at the rate where they begin to fill. Messages on the control ring are never lost.
//
// What the caller must do: hand Models to study.Study.Run.
package tagfarm
