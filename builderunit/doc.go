// Package builderunit is the builder unit (BU): it collects all MFPs of one MEP in one slot of its memory.
//
// It stands for the BU of LHCb's event builder (LHCb-EB §II.A and §III.B): readout units send sizes ahead, the builder
// unit computes offsets, the network writes every MFP once at its final place, and the MEP is complete where it lies.
// The Assembler is the pure core. The Builder gives it slots and windows, and has a goroutine that verifies complete
// MEPs and hands them to a sink (builderunit/sink).
//
// Pull says how many parts the unit requests at a time, which readout unit it asks first, and whether it needs all
// parts: with pull, the builder unit decides when a readout unit may send (TagNet-farm §II.G;
// docs/design/021-disciplines.md).
//
// With pre-granted windows each readout unit has a fixed window in every slot, and the Assembler only counts parts,
// many at a time (docs/design/009-units.md).
//
// A sink that cannot keep up holds the slots of the MEPs that wait for it; or the builder unit discards MEPs beyond
// Config.MaxWaitingMEPs (LHCb-EB §IV.B; docs/design/005-tagnet.md).
//
// The caller must do this, in order: New with free slots; pass every announcement to HandleAnnounce, or every window
// request to AnswerWindowRequest, and every placement to Placed or PlacedMany, from any goroutine; when the run is
// over, Close, then finish or abort the sink. After Close the unit refuses messages of links that are still up, and
// their writes have no window. The unit calls Config.Fail when it cannot go on: a slot is too small, an MFP does not
// verify, a disk is full.
//
// The package does not promise that a MEP becomes complete; nor, with pre-granted windows, that a faulty peer does not
// change its own part while the unit reads it. The caller decides when to give up.
package builderunit
