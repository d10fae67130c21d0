package sink

import (
	"time"

	"ringlet/internal/crc32c"
	"ringlet/recording"
)

// segmentBlock is a piece of a segment on its way to the disk, with the entries that may be written after it. Write
// owns the bytes that it appends to data after completeData; Segments.mu guards the rest.
type segmentBlock struct {
	seg            *segment
	offset         int64  // offset of data in the segment
	data           []byte // its capacity is the size of the block; Write uses it as the buffer of its stream
	completeData   []byte // data up to the last whole MEP, or all data once handed over
	claimedBytes   int    // bytes of completeData that a goroutine has taken to write
	entries        []recording.Entry
	claimedEntries int
	last           bool // it is the last block of the segment
}

func newBlock() *segmentBlock {
	return &segmentBlock{data: make([]byte, 0, bufferBytes+largePiece), entries: make([]recording.Entry, 0, 1024)}
}

// reset empties the block for the data of g at an offset.
func (b *segmentBlock) reset(g *segment, at int64) {
	*b = segmentBlock{
		seg:     g,
		offset:  at,
		data:    b.data[:0],
		entries: b.entries[:0],
	}
}

func (b *segmentBlock) hasPending() bool {
	return b.claimedBytes < len(b.completeData) || b.claimedEntries < len(b.entries)
}

// updateCRC adds the new bytes of the buffer to the checksum.
func (s *Segments) updateCRC() {
	s.crc = crc32c.Add(s.crc, s.out.buf[s.crcAt:])
	s.crcAt = len(s.out.buf)
}

// appendEntry adds the entry of the MEP that was encoded from an offset on, so that Flush writes both.
func (s *Segments) appendEntry(m Meta, from int64) {
	s.updateCRC()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fillingBlock.entries = append(s.fillingBlock.entries, recording.Entry{
		MEP:        m.MEP,
		FirstEvent: m.FirstEvent,
		Offset:     from,
		Length:     s.endOffset() - from,
		Events:     uint32(m.Events),
		Attempt:    m.Attempt,
		CRC:        s.crc,
	})
	s.fillingBlock.completeData = s.out.buf
}

// flushBuffer hands the buffer over when the stream finds it full.
func (s *Segments) flushBuffer() error { return s.handOver(false) }

// handOver hands the filled block over to be written, and takes the spare one. last ends the segment.
func (s *Segments) handOver(last bool) error {
	s.updateCRC()
	s.mu.Lock()
	for s.err == nil && s.fullBlock != nil {
		s.mu.Unlock()
		_ = s.writeOut(false) // another goroutine writes it, or this one; the error is kept
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	b := s.fillingBlock
	b.data, b.completeData, b.last = s.out.buf, s.out.buf, last
	s.fullBlock, s.fillingBlock, s.spareBlock = b, s.spareBlock, nil
	s.fillingBlock.reset(b.seg, b.offset+int64(len(b.completeData)))
	s.out.buf, s.crcAt = s.fillingBlock.data, 0
	s.wakeBackground()
	return nil
}

// writeLarge writes a large piece straight to its place, after all bytes before it, since data have no gaps. The piece
// belongs to a MEP that has no entry yet, so entries need not be written first.
func (s *Segments) writeLarge(p []byte) error {
	if len(s.fillingBlock.entries) > 0 || len(s.out.buf) > 0 {
		if err := s.handOver(false); err != nil {
			return err
		}
	}
	if err := s.writeOut(false); err != nil {
		return err
	}
	s.ioMu.Lock()
	err := s.currentSegment.checkUnchanged(s.fillingBlock.offset)
	s.ioMu.Unlock()
	if err != nil {
		return s.out.fail("write", err)
	}
	from := time.Now()
	n, err := s.currentSegment.data.WriteAt(p, s.fillingBlock.offset)
	s.count.update(func(c *SegmentsStats) { c.addWrite(n, from) })
	s.ioMu.Lock()
	s.currentSegment.advance(s.fillingBlock.offset, n)
	s.ioMu.Unlock()
	if err != nil {
		return s.out.fail("write", err)
	}
	s.crc = crc32c.Add(s.crc, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fillingBlock.offset += int64(len(p))
	return nil
}

// writeJob is the data and entries that one goroutine writes at once.
type writeJob struct {
	b              *segmentBlock
	completesBlock bool // it writes the rest of a block that was handed over
	at             int64
	data           []byte
	entries        []recording.Entry
}

// writeOut writes the block that was handed over and, with withPartial, the whole MEPs of the block being filled.
func (s *Segments) writeOut(withPartial bool) error {
	s.ioMu.Lock()
	defer s.ioMu.Unlock()
	for {
		j, ok := s.nextJob(withPartial)
		if !ok {
			return s.failure()
		}
		if err := j.b.seg.write(j.at, j.data, j.entries, &s.count); err != nil {
			s.fail(err)
			return s.failure()
		}
		if j.completesBlock {
			s.releaseBlock(j.b)
		}
	}
}

// nextJob returns what is to be written next.
func (s *Segments) nextJob(withPartial bool) (j writeJob, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.b = s.fullBlock
	if j.completesBlock = j.b != nil; !j.completesBlock {
		j.b = s.fillingBlock
	}
	if s.err != nil || !j.completesBlock && (!withPartial || !j.b.hasPending()) {
		return j, false
	}
	j.at, j.data = j.b.offset+int64(j.b.claimedBytes), j.b.completeData[j.b.claimedBytes:]
	j.entries = j.b.entries[j.b.claimedEntries:]
	j.b.claimedBytes, j.b.claimedEntries = len(j.b.completeData), len(j.b.entries)
	return j, true
}

// releaseBlock makes a written block the spare one.
func (s *Segments) releaseBlock(b *segmentBlock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fullBlock, s.spareBlock = nil, b
	if b.last {
		s.closingSegments = append(s.closingSegments, b.seg)
		s.wakeBackground()
	}
}

// failure returns the error that ended the output.
func (s *Segments) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail ends the output with err, unless an error has ended it before.
func (s *Segments) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = wrapError(s.c.Dir, "write", err)
		s.changed.Broadcast()
		s.wakeBackground()
	}
}
