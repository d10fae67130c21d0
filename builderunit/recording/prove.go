package recording

import (
	"context"
	"errors"
	"io"
)

// proof is what an index proves of the data beside it.
type proof struct {
	entries      int64         // entries, from the first
	totals       SegmentTotals // by the MEPs of these
	maxEvents    uint32        // the most that one of the MEPs has
	eventsPerMEP uint64        // events that the MEPs before the last have, if they have equally many
	isLive       bool          // they have not
}

// proveIndex holds the entries of an index against the data, and ends at the first that is not right: torn, not behind
// the one before it, beyond the data, or with another checksum. An error is one of reading, and says nothing of the
// segment.
func proveIndex(ctx context.Context, x *indexFile, data io.ReaderAt, size int64) (p proof, err error) {
	w := &crcReader{f: data}
	err = x.scan(ctx, 0, x.entries, func(_ int64, e *Entry, ok bool) error {
		if !ok || e.Offset != w.crcEnd || e.Length == 0 || e.End() > size {
			return errStop
		}
		if err := w.extendCRC(ctx, e.End()); err != nil {
			return err
		}
		if w.crc != e.CRC {
			return errStop
		}
		p.entries++
		p.maxEvents = max(p.maxEvents, e.Events)
		p.totals.Add(*e)
		p.notePacking(e)
		return nil
	})
	return p, err
}

// notePacking notes whether MEPs begin where they do if all before them have equally many events.
func (p *proof) notePacking(e *Entry) {
	each := uint64(0)
	if e.MEP > 0 {
		each = e.FirstEvent / e.MEP
	}
	p.isLive = p.isLive || e.FirstEvent != each*e.MEP || e.MEP > 0 && p.eventsPerMEP > 0 && p.eventsPerMEP != each
	p.eventsPerMEP = max(p.eventsPerMEP, each)
}

// classifyHeader says what the header of an index, which was read with an error or none, is to a segment of the run
// with that key.
func classifyHeader(h *Header, err error, id SegmentID, run uint32, key Key) headerState {
	var version *versionError
	switch {
	case errors.As(err, &version):
		return headerUnknown
	case err != nil:
		return headerTorn
	case h.Run != run || h.Key != key || h.Segment.Builder != id.Builder || h.Segment.Number != id.Number,
		id.Format != 0 && h.Segment.Format != id.Format:
		return headerForeign
	}
	return headerOurs
}
