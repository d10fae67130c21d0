// Package origin compares recorded events with their origin: the generator, which makes every byte again from the seed,
// or the input file that was replayed. It makes the integrity checks of L1-farm §7.5 at the far end: on the disk.
//
// # What the caller must do
//
// Hand Find to recording.Verify, which calls it with the manifest of each run. The manifest has the configuration of
// the run; an input must be at the same path as during the run.
//
// # What it does not promise
//
// Find refuses data of prepared blocks, and of a replay that was allowed to skip records: it cannot be compared.
package origin
