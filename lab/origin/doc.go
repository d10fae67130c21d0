// Package origin compares recorded events with what they were made of: the generator, which makes every byte again from
// the seed, or the input file that was replayed. It stands for the integrity checks of L1-farm §7.5, at the far end: on
// the disk.
//
// # What the caller must do
//
// Hand Find to recording.Verify: it is called with the manifest of each run. The configuration of the run is in its
// manifest; an input has to stand where it stood then.
//
// # What it does not promise
//
// Data of prepared blocks, and of a replay that was allowed to skip records, cannot be compared: Find says so.
package origin
