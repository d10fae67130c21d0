package source

import (
	"context"
	"io"
	"runtime/debug"

	"ringlet/event"
)

// omitted is what a catalog leaves out of a file.
type omitted struct {
	badRecord *BadRecordError // where the walk ended early; nil in mode Skip
	// bytes left out directly before each record with skipped > 0, in order
	gapBytes []int64
	// left out behind the last record
	tailRecords uint32
	tailBytes   int64
}

// replayLoop is what replays of all kinds of files have in common: they go through the rows of a catalog, from the
// beginning to the end and, with Loop, again.
type replayLoop struct {
	// immutable after the replay was opened
	cfg      ReplayConfig
	file     *mapping
	maxBlock int
	maxMEP   int

	// owned by the goroutine that calls Next
	mep         uint64
	nextEvent   uint64 // id of the next event
	nextRow     int    // row of the next event
	nextGap     int    // gaps before at
	tailCounted bool   // what is left out behind the last row was counted in this pass
	ended       bool   // the error of the bad record was given, or Close was called

	// atomic
	counters counters
}

// blockFiller is what a kind of file does for a block.
type blockFiller interface {
	// pick chooses the rows of the next block, and gives the number of their events.
	pick() int
	// fill writes the MFPs of the block to dst, which has room for the largest, and lists them in b.
	fill(dst []byte, b *Block) error
}

// MaxBlock is the size of the largest block of this RU, in bytes; with Loop, of the largest that can arise.
func (p *replayLoop) MaxBlock() int { return p.maxBlock }

// Stats returns the counters so far.
func (p *replayLoop) Stats() Stats { return p.counters.stats() }

// Close unmaps the file.
func (p *replayLoop) Close() error {
	p.ended = true
	return p.file.close()
}

// nextBlock gives the next block; see Source.
func (p *replayLoop) nextBlock(ctx context.Context, dst []byte, b *Block, omit *omitted, filler blockFiller) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.ended {
		return io.EOF
	}
	if len(dst) < p.maxBlock {
		return &bufferTooSmallError{Have: len(dst), Need: p.maxBlock}
	}
	n := filler.pick()
	if n == 0 {
		p.ended = true
		if omit.badRecord != nil && (p.cfg.Events == 0 || p.nextEvent < p.cfg.Events) {
			return omit.badRecord
		}
		return io.EOF
	}
	*b = Block{
		MEP:        p.mep,
		FirstEvent: p.nextEvent,
		Events:     n,
		MFPs:       b.MFPs[:0],
	}
	if err := filler.fill(dst[:p.maxBlock], b); err != nil {
		p.ended = true
		return err
	}
	p.mep++
	p.nextEvent += uint64(n)
	p.counters.countBlock(b)
	return nil
}

// skipBlocks passes over the blocks before a MEP.
func (p *replayLoop) skipBlocks(ctx context.Context, mep uint64, filler blockFiller) (err error) {
	defer p.recoverFault(debug.SetPanicOnFault(true), &err)
	for p.mep < mep {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := filler.pick()
		if n == 0 {
			return io.EOF
		}
		p.mep++
		p.nextEvent += uint64(n)
	}
	return nil
}

// maxEvents is how many events the next block may have.
func (p *replayLoop) maxEvents() int {
	n := uint64(p.cfg.Packing)
	if p.cfg.Events > 0 {
		n = min(n, p.cfg.Events-p.nextEvent)
	}
	return int(min(n, event.EndOfRun-p.nextEvent))
}

// countSkipped counts what is left out directly before a row.
func (p *replayLoop) countSkipped(records uint32, omit *omitted) {
	if records > 0 {
		p.counters.skippedRecords.Add(uint64(records))
		p.counters.skippedBytes.Add(uint64(omit.gapBytes[p.nextGap]))
		p.nextGap++
	}
}

// restart goes back to the beginning of a catalog with so many rows, if the replay is to do so.
func (p *replayLoop) restart(rows int, omit *omitted) bool {
	if !p.tailCounted {
		p.tailCounted = true
		p.counters.skippedRecords.Add(uint64(omit.tailRecords))
		p.counters.skippedBytes.Add(uint64(omit.tailBytes))
	}
	if !p.cfg.Loop || omit.badRecord != nil || rows == 0 {
		return false
	}
	p.nextRow, p.nextGap, p.tailCounted = 0, 0, false
	p.counters.loops.Add(1)
	return true
}

// recoverFault turns a fault in the mapping, of a file that became shorter, into an error. It is deferred.
func (p *replayLoop) recoverFault(former bool, err *error) {
	debug.SetPanicOnFault(former)
	if fault := recover(); fault != nil {
		if !p.file.faulted(fault) {
			panic(fault)
		}
		*err = newShortenedError(p.cfg.Path, p.file.faultOffset(fault))
		p.ended = true
	}
}

// newShortenedError is the error of a fault in the mapping of a file, when nothing tells in which record.
func newShortenedError(path string, offset int64) *BadRecordError {
	return &BadRecordError{
		File:   path,
		Record: event.NoRecord,
		Offset: offset,
		Err:    ErrFileChanged,
		Reason: ErrFileChanged.Error() + ": it became shorter",
	}
}
