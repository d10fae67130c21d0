// Package source gives a readout unit the data that it sends: generated like a detector's, replayed from recorded
// events, or received from front-ends while the run goes on.
//
// It stands for the read-out side of LHCb-EB: the MFP_generator of LHCb-EB §V.A and the "replay of recorded or
// simulated data" among the kinds of buffer behind its Reader interface (LHCb-EB §III.B). In LHCb-EB a PCIe40 card
// hands out one multi-fragment packet (MFP) per data source for the same range of events; here a Source does.
//
// # The unit is the block
//
// A Block is what one readout unit reads for one MEP: for each of its streams an MFP of the same events, one after the
// other in the caller's memory, in order of source id. MEP k covers the events [k·packing, (k+1)·packing); the last
// MEP may have fewer.
//
// # What the caller must do, in this order
//
//  1. NewGenerator or OpenReplay, each with the index of the readout unit and the number of all; wrap the result with
//     PaceSource for a rate.
//  2. Ask MaxBlock, and provide memory for a block of that size each time. RunNeeds.MaxMEPBytes is what the slots of
//     builder units must hold.
//  3. Call Next from one goroutine, or NextBlocks of a BatchSource for small blocks, until it returns an error. io.EOF
//     is the proper end. A *BadRecordError is the end of usable input: all events before the bad record were delivered.
//     Any other error left the source as it was.
//  4. Close.
//
// # Generator
//
// Sizes and content are functions of (seed, source, event): package event/pattern has the rule, and
// GeneratorConfig.Pattern gives the builder unit the same rule. MaxBlock is the exact bound, because the distributions
// are cut at ±3.7 σ.
//
// NewPrepared's Generator gives a few generated blocks again and again with their own event ids. The buffers are its
// memory: the caller passes the same buffers in rotation, and no other code writes to them. MEP k has the same block
// of them in every readout unit.
//
// # Replay
//
// OpenReplay reads the whole file once: it checks every record (sizes, banks, checksum) and learns the keys, (bank
// type, source id), with the most bytes that each has in any event. The cabling deals the keys out to streams so that
// streams carry about equally much. Every readout unit comes to the same catalogue, the same cabling and the same
// decisions about bad records, since these depend on the file and on the configuration alone: readout units exchange
// nothing about them. Each event travels as one container fragment per stream (docs/format/mdf.md); stream 0 also
// carries the record bank from which the builder unit rebuilds the record byte for byte. Every readout unit unpacks a
// compressed record each time it reads it.
//
// A record is bad if package event refuses it (truncated, sizes that disagree, bad bank, wrong checksum, compressed
// bytes that cannot be unpacked, not raw banks), if one key has more bytes in it than a fragment can hold, or if it has
// more banks than a record bank can list.
//
// # Other files
//
// openOtherFormat recognises a file by its first bytes. Of MEPs, of MFPs and of EUDAQ's events each readout unit gives
// its share of the file's sources: there is no cabling, and a configured division must have as many sources as the
// file. All readout units agree which records are bad and in what order rows stand, for the reason above.
//
// # What it does not promise
//
// A source notices a file that is changed while it is replayed only where sizes or places no longer fit: it never
// writes outside a fragment, and it turns a fault in the mapping into an error. Content that changed in place and kept
// its shape goes out as it is. Files that cannot be mapped (pipes, devices) are refused. PaceSource holds a mean rate
// of blocks, not a distance between events.
package source
