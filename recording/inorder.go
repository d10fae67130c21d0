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

// A mepOrder visits the MEPs of a recording in order, each once, in its highest attempt. The order is not held in
// memory: each builds it from the indexes, a span of MEPs at a time. Builder units finish MEPs nearly in order, so
// each stretch of an index is read for one span or two. If they do not, it is read for more spans, and the order is
// the same.
type mepOrder struct {
	c        *Contents
	segments []*orderedSegment
	spans    [][2]uint64 // lowest and highest MEP
	lenient  bool        // damaged entries are left out: the recording may have problems
	opened   []*orderedSegment
}

// orderedSegment is a segment whose MEPs are read in order.
type orderedSegment struct {
	*SegmentContents
	file *os.File    // nil: it is not open
	data segmentScan // reads file
}

// orderedMEP is one MEP and its segment.
type orderedMEP struct {
	scannedEntry
	segment *orderedSegment
}

const (
	// spanMEPs is how many MEPs of a recording are put in order at a time: memory holds an index entry of 120 bytes for
	// each, 31 MB in all, and not their data.
	spanMEPs = 1 << 18
	// maxOpenFiles is how many segments are open at once.
	maxOpenFiles = 64
)

// newMEPOrder returns the order of a recording: one without problems, or any with lenient.
func newMEPOrder(c *Contents, span uint64, lenient bool) (*mepOrder, error) {
	o := &mepOrder{c: c, lenient: lenient}
	for _, s := range c.allSegments() {
		if s.entryCount > 0 { // otherwise no entry is usable, and there may be no index
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

// scan visits the good entries of a stretch of an index.
func (o *mepOrder) scan(ctx context.Context, s *orderedSegment, from, to int64, visit func(*scannedEntry)) error {
	x, err := openIndex(s.indexPath)
	if err != nil {
		return err
	}
	defer func() { _ = x.close() }() // it was only read
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

// each visits the MEPs from a number on, in order. Of copies with the same attempt it takes the one in the first
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

// read returns the bytes of a MEP, valid until the next call. The error is a *Problem if the bytes were changed or
// cannot be read. If the entry before is damaged, nothing proves the bytes, and read does not check them.
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

// open opens a segment. If too many are open, it closes the one opened longest ago.
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
	_ = s.file.Close() // it was only read
	s.file, s.data = nil, segmentScan{}
}

func (o *mepOrder) close() {
	for _, s := range o.opened {
		s.close()
	}
}

// A RecordedMEP is one MEP of a recording, as EachInOrder and EachMEP visit it.
type RecordedMEP struct {
	Entry
	File   string // path of the data file
	Format Format
	Data   []byte // valid until the next RecordedMEP
	// Err is a *Problem if the bytes were changed or cannot be read: then Data is nil.
	Err error
	// Unproven says that no checksum in the index tells whether the bytes are right.
	Unproven bool
}

// EachInOrder visits the MEPs of a recording from number `from` on, in order, each once: of several copies the one
// with the highest attempt, as Merge does. It reads what the indexes prove, in closed and in open segments. It leaves
// out entries with wrong checksums, which Read has listed. In memory it holds one MEP of each open segment file and
// some 300,000 index entries. It ends with the error of visit, of ctx, or of an index that cannot be read.
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
