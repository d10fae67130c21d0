package source

import (
	"context"
	"io"
	"runtime/debug"

	"ringlet/event"
)

// omitted is what a catalog leaves out of a file.
type omitted struct {
	bad *BadRecordError // where the walk ended early; nil in mode Skip
	// bytes left out directly before each record with skipped > 0, in order
	gaps []int64
	// left out behind the last record
	tailRecords uint32
	tailBytes   int64
}

// passes is what replays of all kinds of files have in common: they go through the rows of a catalog, from the
// beginning to the end and, with Loop, again.
type passes struct {
	// immutable after the replay was opened
	cfg      ReplayConfig
	file     *mapping
	maxBlock int
	maxMEP   int

	// owned by the goroutine that calls Next
	mep    uint64
	event  uint64 // id of the next event
	at     int    // row of the next event
	gap    int    // gaps before at
	passed bool   // what is left out behind the last row was counted in this pass
	ended  bool   // the error of the bad record was given, or Close was called

	// atomic
	counters counters
}

// blocks is what a kind of file does for a block.
type blocks interface {
	// pick chooses the rows of the next block, and gives the number of their events.
	pick() int
	// fill writes the MFPs of the block to dst, which has room for the largest, and lists them in b.
	fill(dst []byte, b *Block) error
}

// MaxBlock is the size of the largest block of this RU, in bytes; with Loop, of the largest that can arise.
func (p *passes) MaxBlock() int { return p.maxBlock }

// Stats returns the counters so far.
func (p *passes) Stats() Stats { return p.counters.stats() }

// Close unmaps the file.
func (p *passes) Close() error {
	p.ended = true
	return p.file.close()
}

// next gives the next block; see Source.
func (p *passes) next(ctx context.Context, dst []byte, b *Block, left *omitted, of blocks) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.ended {
		return io.EOF
	}
	if len(dst) < p.maxBlock {
		return &roomError{Have: len(dst), Need: p.maxBlock}
	}
	n := of.pick()
	if n == 0 {
		p.ended = true
		if left.bad != nil && (p.cfg.Events == 0 || p.event < p.cfg.Events) {
			return left.bad
		}
		return io.EOF
	}
	*b = Block{
		MEP:        p.mep,
		FirstEvent: p.event,
		Events:     n,
		MFPs:       b.MFPs[:0],
	}
	if err := of.fill(dst[:p.maxBlock], b); err != nil {
		p.ended = true
		return err
	}
	p.mep++
	p.event += uint64(n)
	p.counters.deliver(b)
	return nil
}

// passOver passes over the blocks before a MEP.
func (p *passes) passOver(ctx context.Context, mep uint64, of blocks) (err error) {
	defer p.guard(debug.SetPanicOnFault(true), &err)
	for p.mep < mep {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := of.pick()
		if n == 0 {
			return io.EOF
		}
		p.mep++
		p.event += uint64(n)
	}
	return nil
}

// most is how many events the next block may have.
func (p *passes) most() int {
	n := uint64(p.cfg.Packing)
	if p.cfg.Events > 0 {
		n = min(n, p.cfg.Events-p.event)
	}
	return int(min(n, event.EndOfRun-p.event))
}

// skip counts what is left out directly before a row.
func (p *passes) skip(records uint32, left *omitted) {
	if records > 0 {
		p.counters.skippedRecords.Add(uint64(records))
		p.counters.skippedBytes.Add(uint64(left.gaps[p.gap]))
		p.gap++
	}
}

// again goes back to the beginning of a catalog with so many rows, if the replay is to do so.
func (p *passes) again(rows int, left *omitted) bool {
	if !p.passed {
		p.passed = true
		p.counters.skippedRecords.Add(uint64(left.tailRecords))
		p.counters.skippedBytes.Add(uint64(left.tailBytes))
	}
	if !p.cfg.Loop || left.bad != nil || rows == 0 {
		return false
	}
	p.at, p.gap, p.passed = 0, 0, false
	p.counters.loops.Add(1)
	return true
}

// guard turns a fault in the mapping, of a file that became shorter, into an error. It is deferred.
func (p *passes) guard(former bool, err *error) {
	debug.SetPanicOnFault(former)
	if fault := recover(); fault != nil {
		if !p.file.faulted(fault) {
			panic(fault)
		}
		*err = shortenedAt(p.cfg.Path, p.file.at(fault))
		p.ended = true
	}
}

// shortenedAt is the error of a fault in the mapping of a file, when nothing tells in which record.
func shortenedAt(path string, offset int64) *BadRecordError {
	return &BadRecordError{
		File:   path,
		Record: event.NoRecord,
		Offset: offset,
		Err:    ErrChanged,
		Reason: ErrChanged.Error() + ": it became shorter",
	}
}
