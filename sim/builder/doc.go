// Package builder plays an event builder: the product's scheduler, orders and barriers over a network of ports.
//
// It stands for the event builder of LHCb-EB. The decisions are those of the product, unchanged: tagnet/core.Allocator
// gives MEPs to builder units, the order of the discipline (readoutunit) says when a readout unit sends what, and
// barrier.Core who waits for whom. Here is the network around them. What software costs, and what becomes of a built
// MEP, is the caller's Model: sim/lhcb plays LHCb with one, and sim/predict a user's cluster with another.
//
// What the caller must do, in this order: make a sim.Sim and a Model, call New, tell the readout units what there is to
// read (Config.RoundsAhead, or World.ReportRead), and Play. HostModel.Built must call World.SendFeedback for each MEP,
// then or later.
//
// # What is modelled, in one page
//
//   - A host has one port. The part of a MEP that a readout unit sends is cut into segments, which stand for many
//     packets each; they go through the ports of the switches on their way (component.Port): cut-through, and with
//     finite buffers where the network loses nothing. There, a segment that the next port has no room for holds up
//     all that are behind it. So two senders to one port share it, and who shares a link with them waits too.
//   - The way is that of lab/topology: fat trees by the port of the destination, tori first along the row.
//   - Messages take a processor's time at both ends and fly for a while. They do not meet data.
//   - With a fence a phase ends with the acknowledgement of its write, as in the product. Without one, a readout unit
//     gets the next write ready meanwhile, and has so many under way at most.
//
// # What it does not promise
//
// Nothing of memory, of buses and of filter processes. Packets within a segment do not mix with those of others.
// Builder units that ask (pull) go by the rule of the product, without its code: parts of the oldest MEP,
// from the readout unit of their own number on.
package builder
