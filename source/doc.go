// Package source gives a readout unit the data it reads: generated like a detector's, or replayed from recorded events.
//
// It stands for the read-out side of LHCb-EB: the MFP_generator of LHCb-EB §V.A and the "replay of recorded or
// simulated data" among the kinds of buffer behind its Reader interface (LHCb-EB §III.B). What the PCIe40 card does
// there, handing out one multi-fragment packet per data source for the same range of events, a Source does here.
//
// # The unit is the block
//
// A Block is what one readout unit reads for one MEP: for each of its streams an MFP of the same events, one behind the
// other in the caller's memory, in order of source id. MEP k covers the events [k·packing, (k+1)·packing); the last may
// have fewer.
//
// # What the caller must do, in this order
//
//  1. NewGenerator or OpenReplay, each with the index of the readout unit and the number of all; wrap the result with
//     Paced for a rate.
//  2. Ask MaxBlock, and provide memory for a block of that size each time. Ask Replay.MaxMEPBytes to size the slots of
//     builders.
//  3. Call Next from one goroutine, or NextBlocks of a Many for small blocks, until it returns an error. io.EOF is the
//     proper end. A *BadRecordError is the end of usable input: all events before it were delivered. Any other error
//     left the source as it was.
//  4. Close.
//
// # Generator
//
// Sizes and content are functions of (seed, source, event): package event/pattern has the rule, GeneratorConfig.Pattern
// gives the builder the same one. The bound MaxBlock is exact, because the distributions are cut at ±3.7 σ.
//
// Prepared gives generated blocks again and again with their own event ids. It must be given the same buffers in
// rotation, which nobody else writes to: they are its memory. In every readout unit MEP k has the same block of them.
//
// # Replay
//
// OpenReplay reads the whole file once: it checks every record (sizes, banks, checksum) and learns the keys, (bank
// type, source id), with the most bytes each has in any event. The Cabling deals the keys out to streams so that they
// carry about equally much. Every readout unit comes to the same catalogue, the same cabling and the same decisions
// about bad records, since these depend on the file and on the configuration alone; nothing about them is exchanged.
// Each event travels as one container fragment per stream (docs/format/mdf.md); stream 0 also carries the record bank
// from which the record is rebuilt byte for byte.
// A compressed record is unpacked at each reading, by every readout unit.
//
// A record is bad if package event refuses it (truncated, sizes that disagree, bad bank, wrong checksum, compressed
// bytes that cannot be unpacked, not raw banks), if one key has more bytes in it than a fragment can hold, or if it has
// more banks than a record bank can list.
//
// # Other files
//
// The row file of the table of kinds opens a file by its first bytes. Of MEPs and MFPs and of EUDAQ's events each
// readout unit gives its share of the file's sources: there is no cabling, and the number of sources must be a multiple
// of that of readout units. What is bad, and in what order things stand, all readout units judge alike, as above.
//
// # What it does not promise
//
// A file that is changed while it is replayed is noticed where it matters (nothing is ever written outside a fragment,
// a fault becomes an error), but content that changed in place and kept its shape goes out as it is. Files that cannot
// be mapped (pipes, devices) are refused. Paced holds a mean rate of blocks, not a distance between events.
package source
