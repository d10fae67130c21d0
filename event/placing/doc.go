// Package placing holds the messages by which a readout unit (RU) and a builder unit (BU) agree where a MEP's MFPs go,
// so that an RU writes every MFP once, at its final place (LHCb-EB §III.B: sizes are sent ahead and the builder
// computes the offsets).
//
// There are two ways. Per MEP: the RU sends an Announce with the sizes of its MFPs, and the BU answers with a Grant of
// the window that the RU writes them to, one behind the other. Or once for all MEPs: a Layout gives each RU a fixed
// window in every slot, the RU sends one window request, the BU answers with PreGrants for all slots, and each part
// begins with its sizes, as Entries. Messages travel as transport signals, whose first byte is the kind; barrier
// messages use the same signals.
//
// The caller builds messages with Append and reads them with Parse, which does not panic on any input. Parse checks the
// encoding alone: the units compare slots, sizes and windows with what they know.
package placing
