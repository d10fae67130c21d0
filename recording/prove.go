package recording

import (
	"cmp"
	"context"
	"errors"
	"io"
)

// proof is how much of the data an index proves.
type proof struct {
	totals       SegmentTotals // of the proven entries, from the first
	maxEvents    uint32        // the most events that one of the MEPs has
	eventsPerMEP uint64        // events of each MEP before the last, if all have equally many
	isLive       bool          // they have different numbers of events
}

// proveIndex compares the entries of an index with the data, and ends at the first that does not match: one that is
// torn, is not after the one before it, reaches beyond the data, or has another checksum. An error means that reading
// failed, and says nothing of the segment.
func proveIndex(ctx context.Context, x *indexFile, data io.ReaderAt, size int64) (p proof, err error) {
	in := &segmentScan{index: x, size: size, data: data}
	err = in.scan(ctx, 0, x.entries, func(e *scannedEntry) error {
		if e.state != entryGood {
			return errStop
		}
		if crc, err := in.sum(ctx, e.End()); err != nil || crc != e.CRC {
			return cmp.Or(err, errStop)
		}
		p.maxEvents = max(p.maxEvents, e.Events)
		p.totals.Add(e.Entry)
		p.notePacking(&e.Entry)
		return nil
	})
	return p, err
}

// notePacking notes whether MEPs begin where they would if all MEPs before had equally many events.
func (p *proof) notePacking(e *Entry) {
	each := uint64(0)
	if e.MEP > 0 {
		each = e.FirstEvent / e.MEP
	}
	p.isLive = p.isLive || e.FirstEvent != each*e.MEP || e.MEP > 0 && p.eventsPerMEP > 0 && p.eventsPerMEP != each
	p.eventsPerMEP = max(p.eventsPerMEP, each)
}

// classifyHeader compares the header of an index, which was read with error err, with a segment of the run with that
// key.
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
