// Package event holds the byte formats that event data is made of: the raw
// bank, the multi-fragment packet (MFP), the multi-event packet (MEP) and the
// MDF record. It is layer 0: it imports nothing of Ringlet and
// knows nothing of networks, files or memory segments.
//
// The formats are those of the LHCb Run-3 event builder (LHCb-EB §II.A and §IV.B); they are drawn, field by
// field, in docs/format/rawbank.md, mfp.md, mep.md and mdf.md. All are little-endian.
//
// # How to read
//
//  1. Hand a byte slice to parseBank, ParseMFP, ParseMEP or ParseRecord. Each
//     reads the first unit in the slice and ignores what follows it.
//  2. If the error is nil, the returned value is a view: it points into the
//     slice, copies nothing and allocates nothing. Its Bytes (or itself, for
//     Bank and Record) tell how far the unit reaches, so that the next unit
//     can be parsed after it.
//  3. Keep the bytes unchanged and mapped for as long as the view, or anything
//     taken from it, is in use. A view over shared memory is only as good as
//     the ownership of that memory: the parsers check what they were given at
//     the time, not what a peer writes later.
//  4. Every failure is a *FormatError that names the format, the field and the
//     offset, and that wraps one of ErrTruncated, ErrMagic, ErrSize,
//     ErrChecksum, ErrOrder, ErrRange or ErrUnsupported.
//
// What each parser promises to have checked is said at the parser. Padding
// bytes are never looked at: detectors leave rubbish there.
//
// # How to write
//
// Append functions grow a caller's slice; Put functions fill a caller's
// memory in place and are what the hot path uses. MFPTables and PutMFPHeader
// write an MFP in place, so that a generator touches each byte once. Padding is
// written as zeros.
//
// # Replay
//
// Recorded MDF events travel through the event builder as fragments of type
// FragmentContainer, each a sequence of whole raw banks. The RecordBank in the
// first stream tells how to put the record together again, byte for byte: see
// replay.go and docs/format/mdf.md.
//
// # What it does not promise
//
// It does not decompress records, does not decode what is inside a bank, and
// does not repair: Skip of UnitReader and MDFCursor finds the next record, but
// what lay between is lost and reported as such.
package event
