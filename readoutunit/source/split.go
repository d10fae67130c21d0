package source

import (
	"runtime/debug"

	"ringlet/event"
)

// split copies the banks of this RU's streams from the records of the batch to their places.
func (r *Replay) split(dst []byte, b *Block) error {
	for _, i := range r.batch {
		if err := r.splitRecord(dst, b, int(i)); err != nil {
			return err
		}
	}
	return nil
}

// splitRecord does one record. What the file says now is held against what it said at open, so that a file changed in
// between cannot make a bank land outside its fragment.
func (r *Replay) splitRecord(dst []byte, b *Block, index int) error {
	ref := r.cat.records[index]
	record, err := ref.record(r.file.data, &r.unpacked)
	if err != nil {
		return r.changedError(ref, index)
	}
	ends, stops := r.nextOffsets, r.currentEnds
	withBank := r.cfg.RU == 0
	bankAt := ends[0]
	for _, p := range r.fragmentsOf(index) { // no other stream has room
		stops[p.stream] += int(p.size)
	}
	if withBank {
		ends[0] += ref.recordBankBytes()
		r.streams = r.streams[:0]
	}
	if record.HeaderSize() > len(record) {
		return r.changedError(ref, index)
	}
	banks := event.NewBankCursor(record.Payload())
	for banks.Next() {
		stream := r.cabling.streamOf(banks.Bank())
		if stream < 0 {
			return r.changedError(ref, index)
		}
		if withBank {
			r.streams = append(r.streams, uint16(stream))
		}
		s, local := r.localStream(stream)
		if !local {
			continue
		}
		raw := banks.RawBank()
		if len(raw) > stops[s]-ends[s] {
			return r.changedError(ref, index)
		}
		ends[s] += copy(dst[ends[s]:], raw)
	}
	if banks.Err() != nil {
		return r.changedError(ref, index)
	}
	for _, p := range r.fragmentsOf(index) {
		if ends[p.stream] != stops[p.stream] {
			return r.changedError(ref, index)
		}
	}
	if withBank {
		out, err := event.AppendRecordBank(dst[bankAt:bankAt:bankAt+ref.recordBankBytes()], record.Header(), r.streams)
		if err != nil || len(out) != ref.recordBankBytes() {
			return r.changedError(ref, index)
		}
	}
	return nil
}

// recoverFault turns a fault in the mapping into an error: the file was cut short by someone else. It is deferred, with
// the former setting of SetPanicOnFault.
func (r *Replay) recoverFault(former bool, err *error) {
	debug.SetPanicOnFault(former)
	if fault := recover(); fault != nil {
		if !r.file.faulted(fault) {
			panic(fault)
		}
		*err = r.shortenedError(fault)
		r.ended = true
	}
}

// shortenedError is the error of a fault in the mapping.
func (r *Replay) shortenedError(fault any) error {
	bad := newShortenedError(r.cfg.Path, r.file.faultOffset(fault))
	if r.cat != nil {
		n := 0
		for n < len(r.cat.records) && r.cat.records[n].offset <= bad.Offset {
			n++
		}
		bad.Record = r.recordIndex(n - 1)
	}
	return bad
}

// changedError is the error of a record that is no longer what it was at open. index is that in the catalog.
func (r *Replay) changedError(ref recordRef, index int) error {
	return &BadRecordError{
		File:   r.cfg.Path,
		Record: r.recordIndex(index),
		Offset: ref.offset,
		Err:    ErrFileChanged,
		Reason: ErrFileChanged.Error() + ": its banks are not those found at open",
	}
}

// recordIndex is the index in the file of the record with the given index in the catalog.
func (r *Replay) recordIndex(index int) int64 {
	record := int64(index)
	for _, before := range r.cat.records[:index+1] {
		record += int64(before.skippedBefore)
	}
	return record
}
