// Package placing holds the messages by which a readout unit and a builder unit agree where a MEP's MFPs go, so that
// every MFP is written once, at its final place (LHCb-EB §III.B: sizes are sent ahead and the builder computes
// the offsets).
//
// A window is granted for one MEP: an Announce tells the sizes of the MFPs that one readout unit has for it, a Grant
// answers with the window it may write them to, in one run. Or it is granted once, for all MEPs: a Layout gives each
// readout unit a fixed window in every slot, one window request is answered with the PreGrants for all of them, and
// each part brings its sizes with it, as Entries. Messages travel as transport signals, whose first byte tells the
// kind; barrier messages use the same signals.
//
// What the caller must do: Append to build, Parse to read. Parse never panics on any input. What it does not promise:
// that a message makes sense; the units check slots, sizes and windows against what they know.
package placing
