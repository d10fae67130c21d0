package recording

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// A plan is which bytes of which segments make the merged file, in order. It is not held in memory: it is made again
// from the indexes, a span of MEPs at a time, as often as it is asked for. Builder units finish MEPs nearly in order,
// so each stretch of an index is read for one span or two. Where they do not, it is read for more of them, and the
// plan is the same.
type mergePlan struct {
	c           *Contents
	segments    []*plannedSegment
	mergedBytes int64 // of the merged file
	spans       [][2]uint64
	lenient     bool // entries that are spoiled are left out: the recording may have problems
}

// plannedSegment is a segment with what each stretch of entriesPerScan entries of its index holds.
type plannedSegment struct {
	contents  *SegmentContents
	mepRanges [][2]uint64 // lowest and highest MEP; the first above the second where there is none
}

// plannedMEP is one MEP of the plan.
type plannedMEP struct {
	Entry               // in its segment
	segmentIndex int    // index in plan.segments
	mergedOffset int64  // offset in the merged file
	crcBefore    uint32 // CRC-32C of its segment up to the MEP
	// unproven says that the entry before is spoiled, so that before is not known.
	unproven bool
}

// spanMEPs is how many MEPs of a plan are held in memory at once, or one block more: 80 bytes for each.
const spanMEPs = 1 << 18

// newPlan reads the indexes of a recording: without problems, or leniently.
func newPlan(ctx context.Context, c *Contents, span uint64, lenient bool) (*mergePlan, error) {
	p := &mergePlan{c: c, lenient: lenient}
	for _, s := range c.allSegments() {
		if s.entryCount == 0 {
			continue // nothing of it was found to be of use: there may be no index
		}
		src := &plannedSegment{contents: s}
		err := p.scanStretch(ctx, src, 0, s.entryCount, func(i int64, e *Entry, _ uint32, _ bool) {
			at := int(i / entriesPerScan)
			for len(src.mepRanges) <= at {
				src.mepRanges = append(src.mepRanges, [2]uint64{math.MaxUint64, 0})
			}
			r := &src.mepRanges[at]
			r[0], r[1] = min(r[0], e.MEP), max(r[1], e.MEP)
		})
		if err != nil {
			return nil, err
		}
		p.segments = append(p.segments, src)
	}
	from, n := uint64(0), uint64(0)
	for _, b := range c.MEPSet.blockNumbers() {
		if n += uint64(c.MEPSet.blocks[b].mepCount); n >= span {
			p.spans = append(p.spans, [2]uint64{from, b<<blockShift | (blockMEPs - 1)})
			from, n = (b+1)<<blockShift, 0
		}
	}
	if n > 0 {
		p.spans = append(p.spans, [2]uint64{from, math.MaxUint64})
	}
	return p, p.eachSpan(ctx, func(meps []plannedMEP) error { // adds up the lengths
		last := &meps[len(meps)-1]
		p.mergedBytes = last.mergedOffset + last.Length
		return nil
	})
}

// scanStretch shows the entries of a stretch, with the CRC before each, unless it is not known.
func (p *mergePlan) scanStretch(ctx context.Context, src *plannedSegment, from, to int64, visit func(i int64, e *Entry,
	before uint32, known bool)) error {
	x, err := openIndex(src.contents.indexPath)
	if err != nil {
		return err
	}
	defer func() { _ = x.close() }()
	before, end := uint32(0), int64(0)
	return x.scan(ctx, max(from-1, 0), to, func(i int64, e *Entry, ok bool) error {
		good := ok && e.checkAgainst(p.c.Manifest) == nil && e.End() <= src.contents.Bytes
		switch {
		case !good && p.lenient:
			return nil
		case !good:
			return &Problem{Kind: DamagedIndex, File: src.contents.indexName(), Text: "it has changed since it was looked at"}
		case i >= from:
			visit(i, e, before, end == e.Offset)
		}
		before, end = e.CRC, e.End()
		return nil
	})
}

// eachSpan gives the MEPs of the merged file in order, a span at a time.
func (p *mergePlan) eachSpan(ctx context.Context, visit func([]plannedMEP) error) error {
	at := int64(0)
	var meps []plannedMEP
	for _, w := range p.spans {
		meps = meps[:0]
		for i, src := range p.segments {
			for k, r := range src.mepRanges {
				if r[0] > w[1] || r[1] < w[0] {
					continue
				}
				from := int64(k) * entriesPerScan
				err := p.scanStretch(ctx, src, from, min(from+entriesPerScan, src.contents.entryCount),
					func(_ int64, e *Entry, before uint32,
						known bool) {
						if e.MEP < w[0] || e.MEP > w[1] {
							return
						}
						if highest, _ := p.c.MEPSet.highestAttempt(e.MEP); e.Attempt == highest {
							meps = append(meps, plannedMEP{
								Entry:        *e,
								segmentIndex: i,
								crcBefore:    before,
								unproven:     !known,
							})
						}
					})
				if err != nil {
					return err
				}
			}
		}
		meps = sortUnique(meps)
		for i := range meps {
			meps[i].mergedOffset = at
			at += meps[i].Length
		}
		if err := visit(meps); err != nil {
			return err
		}
	}
	return nil
}

// sortUnique sorts them by MEP. Of copies with the same attempt it leaves the one that comes first by segment.
func sortUnique(meps []plannedMEP) []plannedMEP {
	slices.SortFunc(meps, func(a, b plannedMEP) int {
		return cmp.Or(cmp.Compare(a.MEP, b.MEP), cmp.Compare(a.segmentIndex, b.segmentIndex), cmp.Compare(a.Offset, b.Offset))
	})
	return slices.CompactFunc(meps, func(a, b plannedMEP) bool { return a.MEP == b.MEP })
}

// unchangedSegment tells the segment that is the merged file as it is, byte for byte; nil if there is none.
func (p *mergePlan) unchangedSegment(ctx context.Context) (*SegmentContents, error) {
	if len(p.segments) != 1 || p.segments[0].contents.MEPs != p.c.MEPSet.MEPs() ||
		p.segments[0].contents.Bytes != p.mergedBytes {
		return nil, ctx.Err()
	}
	straight := true
	err := p.eachSpan(ctx, func(meps []plannedMEP) error {
		for i := range meps {
			straight = straight && meps[i].mergedOffset == meps[i].Offset
		}
		return nil
	})
	if !straight || err != nil {
		return nil, err
	}
	return p.segments[0].contents, nil
}
