// Package readoutunit is the readout unit (RU): it reads the MFPs of its sources, keeps them until their MEPs have an
// outcome, and writes them into the builder units' slots in the order of a discipline: to one builder unit at a time in
// a linear shift, or as they come.
//
// It stands for the RU of LHCb's event builder (LHCb-EB §II.A and §III.B): push, packing, sizes sent ahead, phases held
// by a barrier. From the traffic-managed farm (TagNet-farm §III.B and §III.E) it has the destination tokens, which say
// where each MEP goes. A Core decides: Step applies an input and returns actions. The Core stands on Transfers, the
// table of all tokens, which an Order (shift, tagRing, free) serves, and on a burstPool, the writes under way. Unit is
// the shell, Retention the memory; docs/design/009-units.md and 021-disciplines.md give the reasons.
//
// The caller must do this, in order: New, Start; pass every grant to HandleGrant or HandlePreGrants, every tag to
// HandleTag and every completion to HandleCompletion, from any goroutine; when the run is over, Close. Links that are
// still up may report completions later, so the memory of the Retention must outlive the links. The unit calls
// Config.Fail when it cannot go on. Bad input is not a failure: the MEPs before it are built, and BadRecord returns it.
//
// The package does not promise that a builder unit answers. The transport reports link failures to the caller.
package readoutunit
