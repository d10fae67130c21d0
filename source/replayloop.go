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

// omitted is what a catalogue leaves out of a file.
type omitted struct {
	badRecord *BadRecordError // the record that ended the walk early; nil with SkipBadRecord
	// bytes left out directly before each row that has skippedBefore > 0, in order
	gapBytes []int64
	// left out after the last row
	tailRecords uint32
	tailBytes   int64
}

// closeGap ends the gap before a row that is kept, and returns how many records the gap has.
func (o *omitted) closeGap() uint32 {
	n := o.tailRecords
	if n > 0 {
		o.gapBytes = append(o.gapBytes, o.tailBytes)
	}
	o.tailRecords, o.tailBytes = 0, 0
	return n
}

// replayLoop is the part that replays of all kinds of files share: they go through the rows of a catalogue from
// beginning to end and, with Loop, again.
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
	dueTimes []time.Duration // by row: how long after the first row it is due; nil without PaceAsRecorded

	// owned by the goroutine that calls Next
	mep         uint64
	nextEvent   uint64 // id of the next event
	nextRow     int    // row of the next event
	rowOffset   int    // place of the next event in its row
	batch       []rowStretch
	nextGap     int  // gaps before nextRow
	tailCounted bool // what is left out after the last row was counted in this pass
	ended       bool // the error of the bad record was given, or Close was called
	// how long the passes before this one took, with PaceAsRecorded
	earlierPasses time.Duration

	// atomic
	counters counters
}

// recordedFormat is the part of a replay that depends on the format of its file.
type recordedFormat interface {
	rowCount() int
	// rowAt returns how many events a row has, and how many records were left out directly before it.
	rowAt(row int) (events int, skippedBefore uint32)
	// fill writes the MFPs of the batch to dst, which has room for the largest block, and lists them in b.
	fill(dst []byte, b *Block) error
}

// recordFinder is a format that knows which record stands at an offset of the file.
type recordFinder interface{ recordAt(offset int64) int64 }

// rowStretch is consecutive events of one row.
type rowStretch struct {
	row              int32
	from, eventCount uint16
}

// begin prepares for blocks, now that the rows of the file are known.
func (p *replayLoop) begin(format recordedFormat, omit *omitted, d placing.Division) error {
	p.format, p.omit, p.division, p.share = format, omit, d, newShare(d, p.cfg.RU)
	p.batch = make([]rowStretch, 0, p.cfg.Packing)
	if p.cfg.Loop && format.rowCount() == 0 && omit.badRecord == nil {
		return &ConfigError{"loop", fmt.Sprintf("%s holds no event that could be repeated", p.cfg.Path)}
	}
	return nil
}

// needs returns what all readout units together need.
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

// beginAtMEP goes past the blocks before a MEP without reading them.
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

// pick fills batch with the stretches of the next block, and returns the number of their events.
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

// restart goes back to the beginning, if the replay repeats its file. The times of the next pass are counted from the
// end of this pass.
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

// recoverFault turns a fault in the mapping, whose file became shorter, into an error. It is deferred.
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

// changedError returns the error of a record that is not what it was when the file was opened.
func (p *replayLoop) changedError(record, offset int64, how string) *BadRecordError {
	return &BadRecordError{
		File:   p.cfg.Path,
		Record: record,
		Offset: offset,
		Err:    ErrFileChanged,
		Reason: ErrFileChanged.Error() + ": " + how,
	}
}

// newTooManyError refuses a file with more events than a readout unit can list.
func newTooManyError(path string) error {
	return &ConfigError{"input", fmt.Sprintf("%s holds more than the %d events that a readout unit can list: "+
		"give events, or a part of the file", path, maxRecords)}
}
