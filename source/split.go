package source

import "ringlet/event"

// split copies the banks of this RU's streams from the records of the batch to their places.
func (r *Replay) split(dst []byte, b *Block) error {
	for _, at := range r.batch {
		if err := r.splitRecord(dst, b, int(at.row)); err != nil {
			return err
		}
	}
	return nil
}

// splitRecord copies one record. It compares the file with what the catalogue learnt at open, so that a file changed
// in between cannot make a bank land outside its fragment.
func (r *Replay) splitRecord(dst []byte, b *Block, index int) error {
	ref := r.cat.records[index]
	record, err := ref.record(r.file.data, &r.unpacked)
	if err != nil {
		return r.recordChanged(index)
	}
	ends, stops := r.nextOffsets, r.currentEnds
	withBank := r.cfg.RU == 0
	bankAt := ends[0]
	for _, p := range r.fragmentsOf(index) { // the other streams' fragments have size 0
		stops[p.stream] += p.size()
	}
	if withBank {
		ends[0] += ref.recordBankBytes()
		r.streams = r.streams[:0]
	}
	if record.HeaderSize() > len(record) {
		return r.recordChanged(index)
	}
	banks := event.NewBankCursor(record.Payload())
	for banks.Next() {
		stream := r.cabling.streamOf(banks.Bank())
		if stream < 0 {
			return r.recordChanged(index)
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
			return r.recordChanged(index)
		}
		ends[s] += copy(dst[ends[s]:], raw)
	}
	if banks.Err() != nil {
		return r.recordChanged(index)
	}
	for _, p := range r.fragmentsOf(index) {
		if ends[p.stream] != stops[p.stream] {
			return r.recordChanged(index)
		}
	}
	if withBank {
		out, err := event.AppendRecordBank(dst[bankAt:bankAt:bankAt+ref.recordBankBytes()], record.Header(), r.streams)
		if err != nil || len(out) != ref.recordBankBytes() {
			return r.recordChanged(index)
		}
	}
	return nil
}

// recordAt returns the index in the file of the record at an offset; event.NoRecord before the file is scanned.
func (r *Replay) recordAt(offset int64) int64 {
	if r.cat == nil {
		return event.NoRecord
	}
	n := 0
	for n < len(r.cat.records) && r.cat.records[n].offset <= offset {
		n++
	}
	return r.recordIndex(n - 1)
}

// recordChanged returns the error of a record that is not what it was at open; index is its place in the catalogue.
func (r *Replay) recordChanged(index int) error {
	return r.changedError(r.recordIndex(index), r.cat.records[index].offset, "its banks are not those found at open")
}

// recordIndex returns the index in the file of the record with the given index in the catalogue.
func (r *Replay) recordIndex(index int) int64 {
	record := int64(index)
	for _, before := range r.cat.records[:index+1] {
		record += int64(before.skippedBefore)
	}
	return record
}
