// Package inspect looks into files of event data: MDF records, MEPs and MFPs,
// one after another. It is the logic of "ringlet inspect"; it stands for the
// off-line half of the integrity checks of L1-farm §7.5 and LHCb-EB §IV.B.
//
// # How to use it
//
// Call Inspect with a path and Options. It streams the file, never holding
// more than one record or packet, and writes to w:
//
//   - ModeSummary: counts, sizes, bank types, sources, event ranges;
//   - ModeDump: a line for each record, packet, fragment and bank, with its
//     offset in the file;
//   - ModeVerify: every check there is, a line for each problem.
//
// An invalid file makes it return a *BadInputError; summary and dump have then written what came before the bad place.
// Verify goes on behind a bad place if it finds the next record. Invalid options give an *optionError, other errors are
// the system's. The caller turns them into exit codes.
//
// # What it does not promise
//
// It does not decode the content of a bank, but for the boards of a vertex detector (package velo), and it does not
// check the content of generated fragments: the builder unit's verify mode does that.
package inspect
