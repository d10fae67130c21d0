// Package recording is what a run leaves on disk: a directory that only grows.
//
//	DIR/run-000123/run.json            the manifest: what the run was, and its closed segments
//	DIR/run-000123/bu0-00001.mdf       a closed segment of builder unit 0
//	DIR/run-000123/bu0-00001.idx       its index: one entry for each MEP
//	DIR/run-000123/bu0-00002.mdf.open  the segment being written
//	DIR/run-000123/bu0-00002.idx       its index, one flush behind the data at most
//
// A segment holds MEPs in the order in which they were finished. Its index says which bytes are which MEP, and proves
// them: every entry carries the CRC-32C of the segment up to the end of its MEP. So a reader can read an open segment
// up to its last whole MEP at any moment, and Recover can close what a killed process left without guessing.
//
// The package reads and repairs; package sink writes. It does not depend on networks, schedulers or runs under way.
//
// # What holds at any moment
//
//   - Closed files are never changed or removed, except by Merge with its Remove option, after it has compared, and by
//     Ledger.RemoveSegmentFiles of a backlog.
//   - The process that writes a segment holds a lock (flock) on the segment's index. Recover leaves locked segments
//     alone.
//   - run.json is replaced whole, under the lock of the file run.lock beside it, and synchronised before it is renamed.
//   - Of several entries for one MEP the one with the highest attempt counts. The others are superseded copies.
//
// # What the caller must do
//
// Open a run with OpenRun before writing to it: the key tells runs of the same number apart. Give each builder unit an
// index of its own. Do not put the directory on a file system without flock.
package recording
