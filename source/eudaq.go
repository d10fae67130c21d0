package source

import (
	"ringlet/event"
	"ringlet/event/eudaq"
	"ringlet/internal/crc32c"
)

// The way of an event of EUDAQ through a replay, all in the goroutine that calls Next:
//
//  1. pick (sequential): the next events of the catalog, up to the packing factor
//  2. layOut (sequential): each is parsed; headers and tables of the MFPs of this RU
//  3. copyFragments (sequential): each is parsed again, and the sub-events of this RU's sources are copied
//  4. CRC-32C of each MFP (if asked)
//
// The caller owns the buffer; the mapping is read only. Next allocates nothing.

// eudaqFile gives the events of a file of EUDAQ: each sub-event, in its serialised form, is a fragment. All sub-events
// with one name and one device number are one source; where an event lacks the sub-event of a source, the fragment is
// missing.
type eudaqFile struct {
	replayLoop

	// immutable after it was opened
	cat *eudaqCatalog

	// owned by the goroutine that calls Next
	nextOffsets []int  // by stream: where its next fragment goes
	mfpEnds     []int  // by stream: where its MFP ends
	mfpStarts   []int  // by stream: first the bytes of its fragments, then where its MFP begins
	wide        []bool // by stream: its MFP is wide
	worded      []bool // by stream: its MFP is worded, and so wide
}

func (r *eudaqFile) rowCount() int { return len(r.cat.rows) }

func (r *eudaqFile) rowAt(row int) (int, uint32) { return 1, r.cat.rows[row].skippedBefore }

func (r *eudaqFile) fill(dst []byte, b *Block) error {
	if err := r.layOut(dst, b); err != nil {
		return err
	}
	return r.copyFragments(dst, b)
}

// layOut writes the headers of the MFPs, and tables in which all fragments are missing, and reserves the space for the
// fragments.
func (r *eudaqFile) layOut(dst []byte, b *Block) error {
	n := len(r.batch)
	clear(r.mfpStarts)
	clear(r.wide)
	clear(r.worded)
	for _, at := range r.batch {
		subs, ok := r.subEvents(at.row)
		if !ok {
			return r.rowChanged(at.row)
		}
		for i := range subs {
			if s, ok := r.streamOf(&subs[i]); ok {
				r.mfpStarts[s] += roundUpToWord(len(subs[i].Bytes))
				r.worded[s] = r.worded[s] || hasWords(&subs[i])
				r.wide[s] = r.wide[s] || r.worded[s] || len(subs[i].Bytes) > event.MaxNarrowFragment
			}
		}
	}
	for s := range r.sourceCount {
		header := event.MFPHeaderSize(n)
		if r.wide[s] {
			header = event.WideMFPHeaderSize(n)
		}
		if r.worded[s] {
			header = event.WordedMFPHeaderSize(n)
		}
		size := header + r.mfpStarts[s]
		if size > len(dst)-b.Size {
			return r.rowChanged(r.batch[0].row)
		}
		r.mfpStarts[s], r.nextOffsets[s] = b.Size, b.Size+header
		b.addMFP(dst, uint16(r.firstSource+s), n, size, event.FragmentMissing, r.wide[s], r.worded[s])
		r.mfpEnds[s] = b.Size
		for i := 0; r.worded[s] && i < n; i++ {
			event.PutWords(event.WordsTable(dst[r.mfpStarts[s]:], n), i, event.Words{})
		}
	}
	return nil
}

// copyFragments copies the fragments to their places.
func (r *eudaqFile) copyFragments(dst []byte, b *Block) error {
	n := len(r.batch)
	for i, at := range r.batch {
		subs, ok := r.subEvents(at.row)
		if !ok {
			return r.rowChanged(at.row)
		}
		for k := range subs {
			s, local := r.streamOf(&subs[k])
			if !local {
				continue
			}
			data := subs[k].Bytes
			if roundUpToWord(len(data)) > r.mfpEnds[s]-r.nextOffsets[s] || len(data) > event.MaxNarrowFragment && !r.wide[s] ||
				hasWords(&subs[k]) && !r.worded[s] {
				return r.rowChanged(at.row)
			}
			if r.worded[s] {
				event.PutWords(event.WordsTable(dst[r.mfpStarts[s]:], n), i, wordsOf(&subs[k]))
			}
			types, sizes, _ := mfpTables(dst[r.mfpStarts[s]:], n, r.wide[s])
			types[i] = uint8(event.TestDet)
			putSize(sizes, i, len(data), r.wide[s])
			end := r.nextOffsets[s] + copy(dst[r.nextOffsets[s]:], data)
			r.nextOffsets[s] = padToWord(dst, end)
		}
	}
	for s := range r.sourceCount {
		if r.nextOffsets[s] != r.mfpEnds[s] {
			return r.rowChanged(r.batch[0].row)
		}
		if m := &b.MFPs[s]; r.cfg.CRC {
			m.CRC = crc32c.Sum(dst[m.Offset : m.Offset+m.Size])
		}
	}
	return nil
}

// hasWords says that a sub-event has a trigger number or a time.
func hasWords(sub *eudaq.Event) bool { return sub.Flags&(eudaq.HasTrigger|eudaq.HasTime) != 0 }

// wordsOf are the trigger number and the begin of a sub-event, in its device's unit, as far as it has them.
func wordsOf(sub *eudaq.Event) (w event.Words) {
	if w.HasTrigger = sub.Flags&eudaq.HasTrigger != 0; w.HasTrigger {
		w.Trigger = uint64(sub.TriggerNumber)
	}
	if w.HasStamp = sub.Flags&eudaq.HasTime != 0; w.HasStamp {
		w.Stamp = sub.BeginTime
	}
	return w
}

// subEvents returns the sub-events of a row. False: the bytes are no event any more, since the file was changed.
func (r *eudaqFile) subEvents(row int32) ([]eudaq.Event, bool) {
	subs, err := r.cat.subEvents(r.file.data[r.cat.rows[row].offset:])
	return subs, err == nil
}

// streamOf returns the stream of a sub-event. False: another RU has its source.
func (r *eudaqFile) streamOf(sub *eudaq.Event) (int, bool) {
	source, known := r.cat.sourceOf(sub)
	s, local := r.localStream(source)
	return s, known && local
}

// rowChanged returns the error of a row that is not what it was when the file was opened.
func (r *eudaqFile) rowChanged(row int32) error {
	at := &r.cat.rows[row]
	return r.changedError(at.record, at.offset, "its sub-events are not those found at open")
}
