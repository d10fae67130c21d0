// Package gen writes files of generated data: what `ringlet gen` does.
//
// It makes the recorded or simulated data that a run can read in place of a detector (LHCb-EB §III.B): an MDF file for
// a replay, or the MFPs of a readout unit. The data is that of package event/pattern, so a file can be checked against
// its seed.
//
// Call Generate once. It writes under a temporary name and renames the file, so the file is complete or absent; ctx
// stops Generate.
//
// Two versions of Ringlet may write different bytes for the same seed, unless pattern.Version is the same.
package gen
