// Package builderunit is the builder unit (BU): it collects all MFPs of one MEP in one slot of its memory.
//
// It stands for the BU of LHCb's event builder (LHCb-EB §II.A and §III.B): sizes come ahead, offsets are computed,
// every MFP is written once at its final place by the network, and the MEP is complete where it lies. The Assembler
// is the pure core; the Builder gives it slots, grants and a goroutine that verifies complete MEPs and hands them to a
// sink (builderunit/sink).
//
// How many parts are asked for at a time, of which readout unit first, and whether all of them are wanted, is for Pull
// to say: it makes the builder unit the one who decides when a readout unit may send (TagNet-farm §II.G;
// docs/design/021-disciplines.md).
//
// With pre-granted windows each readout unit has a fixed window in every slot, and the Assembler only counts parts,
// many at a time (docs/design/009-units.md).
//
// A sink that cannot keep up holds the slots of what waits for it, or MEPs are discarded by a Backlog (LHCb-EB §IV.B;
// docs/design/005-tagnet.md).
//
// What the caller must do, in this order: New with free slots; pass every announcement to Announce, or every window
// request to AnswerWindowRequest, and every placement to Placed or PlacedMany, from any goroutine; when the run is
// over, Close, then finish or abort the sink. What links that are still up bring after Close is refused, and cannot be
// written. Fail is called when the unit cannot go on: a slot too small, an MFP that does not verify, a full disk.
//
// What it does not promise: that a MEP becomes whole; nor, with pre-granted windows, that a faulty peer does not change
// its own part while it is read. Whoever runs the unit decides when to give up.
package builderunit
