// Package readoutunit is the readout unit (RU): it reads its sources' MFPs, keeps them until their MEP is done with,
// and writes them into the builder units' slots in the order of a discipline: one builder unit at a time in a linear
// shift, or as they come.
//
// It stands for the RU of LHCb's event builder (LHCb-EB §II.A and §III.B): push, packing, sizes sent ahead, phases held
// by a barrier; and for the destination tokens of the traffic-managed farm (TagNet-farm §III.B and §III.E), which tell
// it where each MEP goes. A Core decides: it is told what has come, by Step, and says what is to be done. It stands on
// Transfers, the table of all tokens, which an Order (shift, tagRing, free) serves, and on a burstPool, what is under
// way. Unit is the shell, Retention the memory; docs/design/009-units.md and 021-disciplines.md say why.
//
// What the caller must do, in this order: New, Start; pass every grant to HandleGrant or HandlePreGrants, every tag to
// HandleTag and every completion to HandleCompletion, from any goroutine; when the run is over, Close. Links that are
// still up may tell late completions after that; the memory of the Retention must outlive them. Fail is called when the
// unit cannot go on. Input that turns bad is not a failure: what came before is built, and BadRecord tells.
//
// What it does not promise: that a builder unit answers. Link failures reach the caller through the transport.
package readoutunit
