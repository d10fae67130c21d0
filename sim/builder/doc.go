// Package builder simulates an event builder: the product's scheduler, orders and barriers over a network of ports.
//
// It is the event builder of LHCb-EB. Its decisions are those of the product's own code: tagnet/core.Allocator gives
// MEPs to builder units, the order of the discipline (readoutunit) decides when a readout unit sends what, and
// barrier.Core which unit waits for which. This package adds the network. The caller's HostModel gives the times of
// software, and takes built MEPs: sim/lhcb has one for LHCb, and sim/predict another for a user's cluster.
//
// What the caller must do, in this order: make a sim.Sim and a HostModel, call New, tell the readout units how far they
// have read (Config.RoundsAhead, or World.ReportRead), and Play. HostModel.Built must call World.SendFeedback for each
// MEP, at once or later.
//
// # What is modelled, in one page
//
//   - A host has one port. The part of a MEP that a readout unit sends is cut into segments, each of many packets,
//     which go through the ports of the switches on their path (component.Port): cut-through, and with finite buffers
//     if the network loses nothing. A segment that does not fit into the next port's buffer blocks all segments behind
//     it. So two senders to one port share it, and senders that share a link with them wait, too.
//   - The path is that of lab/topology: fat trees by the port of the destination, tori first along the row.
//   - Messages take a processor's time at both ends, and a delay between them. They do not share links with data.
//   - With a fence a phase ends with the acknowledgement of its write, as in the product. Without one, a readout unit
//     prepares the next write meanwhile, and has a bounded number under way.
//
// # What it does not promise
//
// Memory, buses and filter processes are not modelled. Packets within a segment do not mix with those of other
// segments. Builder units that ask (pull) follow the rule of the product, without its code: parts of the oldest MEP,
// first from the readout unit with their own number.
package builder
