// Package gen writes files of generated data: what `ringlet gen` does.
//
// It stands for the recorded or simulated data that LHCb-EB §III.B lets a run read instead of a detector: an MDF file
// that a replay can read back, or the MFPs of a readout unit as they would leave it. The data is that of package
// event/pattern, so a file can be checked against the seed it was made from.
//
// Call Generate once. It writes under a temporary name and renames, so the file is whole or not there; ctx stops it.
//
// It does not promise that two versions of Ringlet write the same bytes for the same seed: pattern.Version says when
// they do.
package gen
