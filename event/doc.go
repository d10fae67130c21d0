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
//     slice, copies nothing and allocates nothing. The length of its Bytes (of
//     the view itself, for Bank and Record) is the unit's size: the next unit
//     begins there.
//  3. Keep the bytes unchanged and mapped while the view, or a slice taken
//     from it, is in use. A parser checks the bytes once: if a peer can still
//     write to the memory, the checks prove nothing about what it writes later.
//  4. Every failure is a *FormatError that names the format, the field and the
//     offset, and that wraps one of ErrTruncated, ErrMagic, ErrSize,
//     ErrChecksum, ErrOrder, ErrRange or ErrUnsupported.
//
// The doc comment of a parser lists its checks. No parser looks at padding bytes: detectors leave rubbish there.
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
// It does not decode what is inside a bank, and does not repair: Skip of UnitReader and MDFCursor finds the next record
// and returns how many bytes before it are lost.
package event
