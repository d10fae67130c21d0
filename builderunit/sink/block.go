package sink

import (
	"time"

	"ringlet/builderunit/recording"
	"ringlet/internal/crc32c"
)

// block is a piece of a segment on its way to the disk, and the entries that become true when it is there. Write owns
// what it appends to data behind safe; the rest is guarded by Segments.mu.
type block struct {
	seg          *segment
	at           int64  // offset of data in the segment
	data         []byte // room; Write has it as the buffer of its stream
	safe         []byte // of data: as far as the last whole MEP, or all of it when it has been handed over
	taken        int    // bytes of safe that were taken to be written
	entries      []byte
	entriesTaken int
	last         bool // no more of the segment comes
}

func newBlock() *block {
	return &block{data: make([]byte, 0, bufferBytes+largePiece), entries: make([]byte, 0, 64<<10)}
}

// begin empties the block for the data of g at an offset.
func (b *block) begin(g *segment, at int64) {
	*b = block{
		seg:     g,
		at:      at,
		data:    b.data[:0],
		entries: b.entries[:0],
	}
}

func (b *block) waiting() bool { return b.taken < len(b.safe) || b.entriesTaken < len(b.entries) }

// sum takes the new bytes of the buffer into the checksum.
func (s *Segments) sum() {
	s.crc = crc32c.Add(s.crc, s.out.buf[s.crcAt:])
	s.crcAt = len(s.out.buf)
}

// commit makes the MEP that was encoded from an offset on one of those that Flush must see to.
func (s *Segments) commit(m Meta, from int64) {
	s.sum()
	e := recording.Entry{
		MEP:        m.MEP,
		FirstEvent: m.FirstEvent,
		Offset:     from,
		Length:     s.end() - from,
		Events:     uint32(m.Events),
		Attempt:    m.Attempt,
		CRC:        s.crc,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur.entries = e.Append(s.cur.entries)
	s.cur.safe = s.out.buf
}

// spill is what the stream calls when its buffer is large.
func (s *Segments) spill() error { return s.handOver(false) }

// handOver gives the buffer to those who write, and takes the other one. last ends the segment.
func (s *Segments) handOver(last bool) error {
	s.sum()
	s.mu.Lock()
	for s.err == nil && s.full != nil {
		s.mu.Unlock()
		_ = s.writeOut(false) // by whoever is at it, or here; the error is kept
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	b := s.cur
	b.data, b.safe, b.last = s.out.buf, s.out.buf, last
	s.full, s.cur, s.spare = b, s.spare, nil
	s.cur.begin(b.seg, b.at+int64(len(b.safe)))
	s.out.buf, s.crcAt = s.cur.data, 0
	s.nudge()
	return nil
}

// direct writes a large piece where it belongs, when all that stands before it is written: data have no gaps.
// Entries are written behind it, since it is part of no MEP yet that has one.
func (s *Segments) direct(p []byte) error {
	if len(s.cur.entries) > 0 || len(s.out.buf) > 0 {
		if err := s.handOver(false); err != nil {
			return err
		}
	}
	if err := s.writeOut(false); err != nil {
		return err
	}
	s.io.Lock()
	err := s.seg.unharmed(s.cur.at)
	s.io.Unlock()
	if err != nil {
		return s.out.fail("write", err)
	}
	from := time.Now()
	n, err := s.seg.data.WriteAt(p, s.cur.at)
	s.count.wrote(n, from)
	s.io.Lock()
	s.seg.reach(s.cur.at, n)
	s.io.Unlock()
	if err != nil {
		return s.out.fail("write", err)
	}
	s.crc = crc32c.Add(s.crc, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur.at += int64(len(p))
	return nil
}

// job is what one goroutine writes at once.
type job struct {
	b       *block
	whole   bool // nothing of the block is left then
	at      int64
	data    []byte
	entries []byte
}

// writeOut writes the block that was handed over, and with all the whole MEPs of the one being filled.
func (s *Segments) writeOut(all bool) error {
	s.io.Lock()
	defer s.io.Unlock()
	for {
		j, ok := s.take(all)
		if !ok {
			return s.failed()
		}
		if err := j.b.seg.put(j.at, j.data, j.entries, &s.count); err != nil {
			s.fail(err)
			return s.failed()
		}
		if j.whole {
			s.written(j.b)
		}
	}
}

// take finds what is to be written next.
func (s *Segments) take(all bool) (j job, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.b = s.full
	if j.whole = j.b != nil; !j.whole {
		j.b = s.cur
	}
	if s.err != nil || !j.whole && (!all || !j.b.waiting()) {
		return j, false
	}
	j.at, j.data = j.b.at+int64(j.b.taken), j.b.safe[j.b.taken:]
	j.entries = j.b.entries[j.b.entriesTaken:]
	j.b.taken, j.b.entriesTaken = len(j.b.safe), len(j.b.entries)
	return j, true
}

// written makes a block that was written free again.
func (s *Segments) written(b *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.spare = nil, b
	if b.last {
		s.closing = append(s.closing, b.seg)
		s.nudge()
	}
}

// failed is the error that ended the output.
func (s *Segments) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail makes err the end of the output, unless there was one before.
func (s *Segments) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = failed(s.c.Dir, "write", err)
		s.changed.Broadcast()
		s.nudge()
	}
}
