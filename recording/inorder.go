package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"ringlet/internal/crc32c"
	"ringlet/internal/safeopen"
)

// A mepOrder gives the MEPs of a recording in order, each once, with the highest attempt. It is not held in memory: it
// is made from the indexes, a span of MEPs at a time, as often as it is asked for. Builder units finish MEPs nearly in
// order, so each stretch of an index is read for one span or two. Where they do not, it is read for more of them, and
// the order is the same.
type mepOrder struct {
	c        *Contents
	segments []*orderedSegment
	spans    [][2]uint64 // lowest and highest MEP
	lenient  bool        // entries that are spoiled are left out: the recording may have problems
	opened   []*orderedSegment
}

// orderedSegment is a segment whose MEPs are read in order.
type orderedSegment struct {
	*SegmentContents
	file *os.File    // nil: it is not open
	data segmentScan // of file
}

// orderedMEP is one MEP, in its place.
type orderedMEP struct {
	scannedEntry
	segment *orderedSegment
}

const (
	// spanMEPs is how many MEPs of a recording are held in memory at once: 120 bytes for each.
	spanMEPs = 1 << 18
	// maxOpenFiles is how many segments are open at a time.
	maxOpenFiles = 64
)

// newMEPOrder is the order of a recording that was read: without problems, or leniently.
func newMEPOrder(c *Contents, span uint64, lenient bool) (*mepOrder, error) {
	o := &mepOrder{c: c, lenient: lenient}
	for _, s := range c.allSegments() {
		if s.entryCount > 0 { // or else nothing of it was found to be of use: there may be no index
			o.segments = append(o.segments, &orderedSegment{SegmentContents: s})
		}
	}
	from, meps := uint64(0), c.MEPSet.MEPs()
	for n := span; n < meps; n += span {
		next, err := c.MEPSet.numbers.Select(n)
		if err != nil {
			return nil, err
		}
		o.spans, from = append(o.spans, [2]uint64{from, next - 1}), next
	}
	o.spans = append(o.spans, [2]uint64{from, math.MaxUint64})
	return o, nil
}

// scan shows the good entries of a stretch of an index.
func (o *mepOrder) scan(ctx context.Context, s *orderedSegment, from, to int64, visit func(*scannedEntry)) error {
	x, err := openIndex(s.indexPath)
	if err != nil {
		return err
	}
	defer func() { _ = x.close() }() // it was read
	in := &segmentScan{index: x, m: o.c.Manifest, size: s.Bytes}
	if err := in.seek(ctx, from, 1); err != nil {
		return err
	}
	return in.scan(ctx, from, to, func(e *scannedEntry) error {
		switch {
		case e.state == entryGood:
			visit(e)
		case !o.lenient:
			return &Problem{Kind: DamagedIndex, File: s.indexName(), Text: "it has changed since it was looked at"}
		}
		return nil
	})
}

// each gives the MEPs from a number on, in order. Of copies with the same attempt it is the one that comes first by
// segment.
func (o *mepOrder) each(ctx context.Context, from uint64, visit func(*orderedMEP) error) error {
	var meps []orderedMEP
	for _, span := range o.spans {
		lowest, highest := max(span[0], from), span[1]
		meps = meps[:0]
		for _, s := range o.segments {
			for k, r := range s.mepRanges {
				if r[0] > highest || r[1] < lowest {
					continue
				}
				first := int64(k) * entriesPerScan
				err := o.scan(ctx, s, first, min(first+entriesPerScan, s.entryCount), func(e *scannedEntry) {
					if e.MEP < lowest || e.MEP > highest {
						return
					}
					if attempt, _ := o.c.MEPSet.highestAttempt(e.MEP); e.Attempt == attempt {
						meps = append(meps, orderedMEP{*e, s})
					}
				})
				if err != nil {
					return err
				}
			}
		}
		slices.SortStableFunc(meps, func(a, b orderedMEP) int { return cmp.Compare(a.MEP, b.MEP) })
		meps = slices.CompactFunc(meps, func(a, b orderedMEP) bool { return a.MEP == b.MEP })
		for i := range meps {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(&meps[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// read gives the bytes of a MEP, good until the next call. The error is a *Problem where they are not those that were
// written, or cannot be read. Where an entry before is spoiled, nothing tells whether they are.
func (o *mepOrder) read(m *orderedMEP) ([]byte, error) {
	err := o.open(m.segment)
	var data []byte
	if err == nil {
		data, err = m.segment.data.bytes(m.Offset, m.Length)
	}
	if err == nil && m.proven && crc32c.Add(m.before, data) != m.CRC {
		err = errors.New("the bytes have been changed")
	}
	if err != nil {
		return nil, &Problem{
			Kind:   DamagedData,
			File:   m.segment.Name,
			Events: m.eventRange(),
			Text:   fmt.Sprintf("MEP %d at offset %d: %v", m.MEP, m.Offset, err),
		}
	}
	return data, nil
}

// open opens a segment, and closes the one that was opened longest ago where too many are open.
func (o *mepOrder) open(s *orderedSegment) error {
	if s.file != nil {
		return nil
	}
	if len(o.opened) == maxOpenFiles {
		o.opened[0].close()
		o.opened = o.opened[1:]
	}
	f, err := safeopen.OpenNoFollow(s.path())
	if err != nil {
		return err
	}
	s.file, s.data = f, segmentScan{data: f}
	o.opened = append(o.opened, s)
	return nil
}

func (s *orderedSegment) close() {
	_ = s.file.Close() // it was read
	s.file, s.data = nil, segmentScan{}
}

func (o *mepOrder) close() {
	for _, s := range o.opened {
		s.close()
	}
}

// A RecordedMEP is one MEP of a recording, as EachInOrder gives it.
type RecordedMEP struct {
	Entry
	File   string // path of the data file
	Format Format
	Data   []byte // good until the next RecordedMEP
	// Err is a *Problem where the bytes are not those that were written, or cannot be read: Data is then nil.
	Err error
	// Unproven says that nothing in the index tells whether the bytes are those that were written.
	Unproven bool
}

// EachInOrder gives the MEPs of a recording from number `from` on, in order, each once: of several copies that with the
// highest attempt, as Merge does. It reads what the indexes prove, in closed and in open segments. Entries with wrong
// checksums are left out, and Read has named them. It holds one MEP of each of some segments, and the index entries of
// some 300,000, in memory. It ends with the error of visit, of ctx, or of an index that cannot be read.
func (c *Contents) EachInOrder(ctx context.Context, from uint64, visit func(*RecordedMEP) error) error {
	o, err := newMEPOrder(c, spanMEPs, true)
	if err != nil {
		return err
	}
	defer o.close()
	var current RecordedMEP
	return o.each(ctx, from, func(m *orderedMEP) error {
		current = RecordedMEP{Entry: m.Entry, File: m.segment.path(), Format: m.segment.ID.Format, Unproven: !m.proven}
		current.Data, current.Err = o.read(m)
		return visit(&current)
	})
}
