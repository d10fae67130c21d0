package source

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"

	"ringlet/event"
	"ringlet/event/eudaq"
)

// eudaqRow says where an event stands in the file.
type eudaqRow struct {
	offset        int64
	record        int64  // index in the file
	skippedBefore uint32 // records left out directly before it
}

// eudaqCatalog is what one walk over a file of EUDAQ learns: every RU that reads the same file has the same.
type eudaqCatalog struct {
	rows    []eudaqRow
	sources map[string]int // by key, in the order in which they come first
	omitted

	next      uint64 // number of the next event
	hasWide   bool   // a fragment may need a wide MFP
	hasWorded bool   // a fragment has a trigger number or a time

	// scratch
	subs    []eudaq.Event
	single  [1]eudaq.Event
	key     []byte
	size    int
	seen    map[int]struct{}    // sources of an event
	newKeys map[string]struct{} // keys of an event that no event before it has
}

// subEvents returns the sub-events of the event at the beginning of b, or the event itself if it has none. The next
// call overwrites the slice.
func (c *eudaqCatalog) subEvents(b []byte) ([]eudaq.Event, error) {
	e, subs, err := eudaq.Parse(b, c.subs)
	if c.subs = subs; err != nil {
		return nil, err
	}
	c.single[0], c.size = e, len(e.Bytes)
	if len(subs) == 0 {
		return c.single[:], nil
	}
	return subs, nil
}

// sourceOf returns the number of a sub-event's source. False: no event before had the source.
func (c *eudaqCatalog) sourceOf(sub *eudaq.Event) (int, bool) {
	c.key = binary.LittleEndian.AppendUint32(append(c.key[:0], sub.Description...), sub.Stream)
	s, ok := c.sources[string(c.key)]
	return s, ok
}

// scanEudaq walks the events of data. It ends at the end of the data, after limit events (if c.Events > 0), at the
// first bad event with StopAtBadRecord, or with ctx, whose error it returns. An event whose length is damaged takes
// the rest of the file with it, since the format has no mark by which the next event could be found.
func scanEudaq(ctx context.Context, data []byte, c ReplayConfig) (*eudaqCatalog, error) {
	cat := &eudaqCatalog{sources: map[string]int{}, seen: map[int]struct{}{}, newKeys: map[string]struct{}{}}
	look := contextPoller{ctx: ctx}
	record := int64(0)
	for at := 0; at < len(data) && (c.Events == 0 || uint64(len(cat.rows)) < c.Events); record++ {
		cat.size = len(data) - at
		subs, err := cat.subEvents(data[at:])
		if err == nil {
			err = cat.check(subs, c.OnBadRecord)
		}
		if err != nil && c.OnBadRecord == StopAtBadRecord {
			cat.badRecord = newBadRecordError(c.Path, event.LocateError(err, record, int64(at)))
			break
		}
		switch {
		case err != nil:
			cat.tailRecords++
			cat.tailBytes += int64(cat.size)
		case len(cat.rows) == maxRecords:
			return nil, newTooManyError(c.Path)
		default:
			cat.add(subs, int64(at), record)
		}
		at += cat.size
		if over := look.advance(cat.size); over != nil {
			return nil, over
		}
	}
	return cat, nil
}

// check says why an event cannot be replayed. Offsets in the error count from the beginning of the event.
func (c *eudaqCatalog) check(subs []eudaq.Event, mode OnBadRecord) error {
	refuse := func(kind error, field, reason string, args ...any) error {
		return &event.FormatError{
			Format: "eudaq",
			Field:  field,
			Record: event.NoRecord,
			Err:    kind,
			Reason: fmt.Sprintf(reason, args...),
		}
	}
	clear(c.seen)
	clear(c.newKeys)
	total := 0
	for i := range subs {
		sub := &subs[i]
		total += len(sub.Bytes) + wordBytes
		if len(sub.Bytes) > event.MaxFragment {
			return refuse(event.ErrRange, "sub-event", "%q, device %d, has %d bytes, and a fragment %d at most",
				sub.Description, sub.Stream, len(sub.Bytes), event.MaxFragment)
		}
		c.hasWide, c.hasWorded = c.hasWide || len(sub.Bytes) > event.MaxNarrowFragment, c.hasWorded || hasWords(sub)
		s, known := c.sourceOf(sub)
		_, twice := c.seen[s]
		if known {
			c.seen[s] = struct{}{}
		} else {
			_, twice = c.newKeys[string(c.key)]
			c.newKeys[string(c.key)] = struct{}{}
		}
		if twice {
			return refuse(event.ErrOrder, "sub-event", "%q, device %d, is in it twice", sub.Description, sub.Stream)
		}
	}
	if total > math.MaxUint32 {
		return refuse(event.ErrRange, "sub-events", "they have %d bytes, and those of an event have less than 4 GiB", total)
	}
	if len(c.sources)+len(c.newKeys) > maxSources {
		return refuse(event.ErrRange, "sub-events", "they are of more than %d sources", maxSources)
	}
	switch number := uint64(c.single[0].Number); {
	case len(c.rows) > 0 && number < c.next:
		return refuse(event.ErrOrder, "event number", "event %d again: the file is past event %d", number, c.next-1)
	case len(c.rows) > 0 && number > c.next && mode == StopAtBadRecord:
		return refuse(event.ErrOrder, "event number", "events %d to %d are not in the file", c.next, number-1)
	}
	return nil
}

// add appends an event to the catalogue.
func (c *eudaqCatalog) add(subs []eudaq.Event, at, record int64) {
	for i := range subs {
		if _, known := c.sourceOf(&subs[i]); !known {
			c.sources[string(c.key)] = len(c.sources)
		}
	}
	number := uint64(c.single[0].Number)
	if len(c.rows) > 0 && number > c.next && c.tailRecords == 0 {
		c.tailRecords = 1 // SkipBadRecord counts a gap in the numbers as one record, however long it is
	}
	c.rows = append(c.rows, eudaqRow{at, record, c.closeGap()})
	c.next = number + 1
}

// scanFile reads the mapped file and learns its events and sources.
func (r *eudaqFile) scanFile(ctx context.Context) (err error) {
	defer r.recoverFault(debug.SetPanicOnFault(true), &err)
	c := r.cfg
	if c.PaceAsRecorded {
		return noTimesError(c.Path, "EUDAQ")
	}
	if r.cat, err = scanEudaq(ctx, r.file.data, c); err != nil {
		return err
	}
	d := emptyDivision(c)
	if n := len(r.cat.sources); n > 0 {
		if d, err = divide(n, c.RUs, c.Division, c.Path); err != nil {
			return err
		}
	}
	if err := r.begin(r, &r.cat.omitted, d); err != nil {
		return err
	}
	local, total := make([]uint32, len(r.cat.rows)), make([]uint32, len(r.cat.rows))
	look := contextPoller{ctx: ctx}
	for i := range r.cat.rows {
		subs, ok := r.subEvents(int32(i))
		if !ok {
			return r.rowChanged(int32(i))
		}
		for k := range subs {
			size := uint32(roundUpToWord(len(subs[k].Bytes)))
			total[i] += size
			if _, isLocal := r.streamOf(&subs[k]); isLocal {
				local[i] += size
			}
		}
		if err := look.advance(r.cat.size); err != nil {
			return err
		}
	}
	header := event.MFPHeaderSize(c.Packing)
	if r.cat.hasWide {
		header = event.WideMFPHeaderSize(c.Packing)
	}
	if r.cat.hasWorded {
		header = event.WordedMFPHeaderSize(c.Packing)
	}
	r.maxBlock = maxBlockBytes(r.sourceCount, local, header, c)
	r.maxMEP = maxBlockBytes(r.division.Sources(), total, header, c)
	r.nextOffsets, r.mfpEnds, r.mfpStarts = make([]int, r.sourceCount), make([]int, r.sourceCount), make([]int,
		r.sourceCount)
	r.wide, r.worded = make([]bool, r.sourceCount), make([]bool, r.sourceCount)
	return checkBlockSize(r.maxBlock, c)
}
