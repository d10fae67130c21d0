package source

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"ringlet/event"
	"ringlet/event/placing"
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

// closeGap ends what is left out before a row that is kept, and says how many records that is.
func (o *omitted) closeGap() uint32 {
	n := o.tailRecords
	if n > 0 {
		o.gapBytes = append(o.gapBytes, o.tailBytes)
	}
	o.tailRecords, o.tailBytes = 0, 0
	return n
}

// replayLoop is what replays of all kinds of files have in common: they go through the rows of a catalog, from the
// beginning to the end and, with Loop, again.
type replayLoop struct {
	// immutable after the replay was opened
	cfg      ReplayConfig
	file     *mapping
	format   recordedFormat // nil before it is known
	omit     *omitted
	division placing.Division
	share
	maxBlock int
	maxMEP   int
	dueTimes []time.Duration // by row: when it is due after the first; nil where nobody asks

	// owned by the goroutine that calls Next
	mep         uint64
	nextEvent   uint64 // id of the next event
	nextRow     int    // row of the next event
	rowOffset   int    // place of the next event in its row
	batch       []rowStretch
	nextGap     int  // gaps before at
	tailCounted bool // what is left out behind the last row was counted in this pass
	ended       bool // the error of the bad record was given, or Close was called
	// what the passes before this one took, where times were asked for
	earlierPasses time.Duration

	// atomic
	counters counters
}

// recordedFormat is what a kind of file does.
type recordedFormat interface {
	rowCount() int
	// rowAt is how many events a row has, and how many records are left out directly before it.
	rowAt(row int) (events int, skippedBefore uint32)
	// fill writes the MFPs of the batch to dst, which has room for the largest block, and lists them in b.
	fill(dst []byte, b *Block) error
}

// recordFinder is a format that knows which record stands at an offset of the file.
type recordFinder interface{ recordAt(offset int64) int64 }

// rowStretch is a number of events of a row.
type rowStretch struct {
	row              int32
	from, eventCount uint16
}

// begin prepares for blocks of the rows that are known now.
func (p *replayLoop) begin(format recordedFormat, omit *omitted, d placing.Division) error {
	p.format, p.omit, p.division, p.share = format, omit, d, newShare(d, p.cfg.RU)
	p.batch = make([]rowStretch, 0, p.cfg.Packing)
	if p.cfg.Loop && format.rowCount() == 0 && omit.badRecord == nil {
		return &ConfigError{"loop", fmt.Sprintf("%s holds no event that could be repeated", p.cfg.Path)}
	}
	return nil
}

// needs is what all readout units together need.
func (p *replayLoop) needs() RunNeeds { return RunNeeds{p.division, p.maxMEP} }

// MaxBlock is the size of the largest block of this RU, in bytes; with Loop, of the largest that can arise.
func (p *replayLoop) MaxBlock() int { return p.maxBlock }

// Stats returns the counters so far.
func (p *replayLoop) Stats() Stats { return p.counters.stats() }

// Close unmaps the file.
func (p *replayLoop) Close() error {
	p.ended = true
	return p.file.close()
}

// Next gives the next block; see Source.
func (p *replayLoop) Next(ctx context.Context, dst []byte, b *Block) (err error) {
	defer p.recoverFault(debug.SetPanicOnFault(true), &err)
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.ended {
		return io.EOF
	}
	if len(dst) < p.maxBlock {
		return &bufferTooSmallError{Have: len(dst), Need: p.maxBlock}
	}
	n := p.pick()
	if n == 0 {
		p.ended = true
		if p.omit.badRecord != nil && (p.cfg.Events == 0 || p.nextEvent < p.cfg.Events) {
			return p.omit.badRecord
		}
		return io.EOF
	}
	*b = Block{
		MEP:        p.mep,
		FirstEvent: p.nextEvent,
		Events:     n,
		MFPs:       b.MFPs[:0],
	}
	if err := p.format.fill(dst[:p.maxBlock], b); err != nil {
		p.ended = true
		return err
	}
	p.mep++
	p.nextEvent += uint64(n)
	p.counters.countBlock(b)
	return nil
}

// beginAtMEP passes over the blocks before a MEP.
func (p *replayLoop) beginAtMEP(ctx context.Context, mep uint64) (err error) {
	defer p.recoverFault(debug.SetPanicOnFault(true), &err)
	for p.mep < mep {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := p.pick()
		if n == 0 {
			return io.EOF
		}
		p.mep++
		p.nextEvent += uint64(n)
	}
	return nil
}

// pick fills batch with the stretches of the next block, and gives the number of their events.
func (p *replayLoop) pick() int {
	p.batch = p.batch[:0]
	n := p.maxEvents()
	remaining := n
	for remaining > 0 {
		if p.nextRow == p.format.rowCount() && !p.restart() {
			break
		}
		inRow, skipped := p.format.rowAt(p.nextRow)
		if p.rowOffset == 0 && skipped > 0 {
			p.counters.skippedRecords.Add(uint64(skipped))
			p.counters.skippedBytes.Add(uint64(p.omit.gapBytes[p.nextGap]))
			p.nextGap++
		}
		events := min(remaining, inRow-p.rowOffset)
		p.batch = append(p.batch, rowStretch{int32(p.nextRow), uint16(p.rowOffset), uint16(events)})
		remaining -= events
		if p.rowOffset += events; p.rowOffset == inRow {
			p.nextRow, p.rowOffset = p.nextRow+1, 0
		}
	}
	return n - remaining
}

// maxEvents is how many events the next block may have.
func (p *replayLoop) maxEvents() int {
	n := uint64(p.cfg.Packing)
	if p.cfg.Events > 0 {
		n = min(n, p.cfg.Events-p.nextEvent)
	}
	return int(min(n, event.EndOfRun-p.nextEvent))
}

// restart goes back to the beginning, if the replay is to do so. Times go on where this pass ends.
func (p *replayLoop) restart() bool {
	if !p.tailCounted {
		p.tailCounted = true
		p.counters.skippedRecords.Add(uint64(p.omit.tailRecords))
		p.counters.skippedBytes.Add(uint64(p.omit.tailBytes))
	}
	if !p.cfg.Loop || p.omit.badRecord != nil || p.format.rowCount() == 0 {
		return false
	}
	p.earlierPasses = p.nextDue()
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
		offset := p.file.faultOffset(fault)
		bad := p.changedError(event.NoRecord, offset, "it became shorter")
		if f, ok := p.format.(recordFinder); ok {
			bad.Record = f.recordAt(offset)
		}
		*err = bad
		p.ended = true
	}
}

// changedError is the error of a record that is no longer what it was at open.
func (p *replayLoop) changedError(record, offset int64, how string) *BadRecordError {
	return &BadRecordError{
		File:   p.cfg.Path,
		Record: record,
		Offset: offset,
		Err:    ErrFileChanged,
		Reason: ErrFileChanged.Error() + ": " + how,
	}
}

// newTooManyError refuses a file that holds more than can be kept in mind.
func newTooManyError(path string) error {
	return &ConfigError{"input", fmt.Sprintf("%s holds more than the %d events that a readout unit can keep in mind: "+
		"give events, or a part of the file", path, maxRecords)}
}
