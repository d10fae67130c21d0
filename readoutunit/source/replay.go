package source

import (
	"context"
	"encoding/binary"
	"io"
	"runtime/debug"
	"time"

	"ringlet/event"
	"ringlet/internal/crc32c"
)

// The way of a record through a replay, all in the goroutine that calls Next:
//
//  1. pick (sequential): the next records of the catalog, up to the packing factor
//  2. tables (sequential): headers and sizes of this RU's MFPs, from the sizes learnt at open
//  3. split (sequential): each bank of this RU's streams is copied once, from the mapped file to its place in the
//     caller's buffer
//  4. CRC-32C of each MFP (if asked)
//
// The caller owns the buffer; the mapping is read only. Nothing is allocated.

// ReplayConfig describes what one RU replays. All RUs of a run must agree on all but RU and CRC, and must find the same
// file.
type ReplayConfig struct {
	Path    string // an MDF file
	RU      int    // index of this readout unit, from 0
	RUs     int    // readout units of the run
	Streams int    // streams per readout unit; zero is the smallest number of at least three that the file allows
	Packing int    // events per MFP, 1..65535
	Loop    bool   // begin again at the end of the file; event ids go on
	// OnBadRecord is what happens at a record that cannot be used; the zero value is Stop.
	OnBadRecord OnBadRecord
	Events      uint64 // events in all; zero is all of the file, or endless with Loop
	CRC         bool   // fill MFPInfo.CRC
	AsTaken     bool   // openRecorded: with the times between the events that their records say
}

// Replay gives the events of an MDF file as container fragments (docs/format/mdf.md, "Replay"), so that a builder can
// put each record together again byte for byte.
type Replay struct {
	// immutable after OpenReplay
	cfg      ReplayConfig
	file     *mapping
	cat      *catalog
	cabling  *Cabling
	parts    []part // this RU's fragments that are not empty: by record
	partsEnd []int  // by record: where its parts end
	maxBlock int
	maxMEP   int
	taken    []time.Duration // by record: when it is due after the first; nil where nobody asks

	// owned by the goroutine that calls Next
	mep     uint64
	event   uint64        // id of the next event
	at      int           // record of the next event
	gap     int           // gaps before at
	before  time.Duration // that the passes before this one took, where times were asked for
	passed  bool          // what is left out behind the last record was counted in this pass
	ended   bool          // the error of the bad record was given, or Close was called
	batch   []int32
	ends    []int    // by stream: where the next bank goes
	stops   []int    // by stream: where the fragment of the event at hand ends
	starts  []int    // by stream: where its MFP begins; before that is known, the bytes of its fragments
	streams []uint16 // of the banks of one record, for the record bank

	// atomic
	counters counters
}

// cabled says which stream carries which banks.
func (r *Replay) cabled() *Cabling { return r.cabling }

// events is the number of events that Next will give, all blocks together; endless says that there is no such number.
func (r *Replay) events() (n uint64, endless bool) {
	n = uint64(len(r.cat.records))
	if r.cfg.Loop && r.cat.bad == nil {
		return r.cfg.Events, r.cfg.Events == 0
	}
	if r.cfg.Events > 0 {
		n = min(n, r.cfg.Events)
	}
	return n, false
}

// bad is the record that will end the replay, or nil. It is known from the beginning.
func (r *Replay) bad() *BadRecordError { return r.cat.bad }

// MaxBlock is the size of the largest block of this RU, in bytes; with Loop, of the largest that can arise.
func (r *Replay) MaxBlock() int { return r.maxBlock }

// MaxMEP is the same for the blocks of all RUs together: what the MFPs of the largest MEP take, without its header.
func (r *Replay) MaxMEP() int { return r.maxMEP }

// Stats returns the counters so far.
func (r *Replay) Stats() Stats { return r.counters.stats() }

// Close unmaps the file.
func (r *Replay) Close() error {
	r.ended = true
	return r.file.close()
}

// Next gives the next block; see Source.
func (r *Replay) Next(ctx context.Context, dst []byte, b *Block) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.ended {
		return io.EOF
	}
	if len(dst) < r.maxBlock {
		return &roomError{Have: len(dst), Need: r.maxBlock}
	}
	defer r.guard(debug.SetPanicOnFault(true), &err)
	r.pick()
	if len(r.batch) == 0 {
		r.ended = true
		if r.cat.bad != nil && (r.cfg.Events == 0 || r.event < r.cfg.Events) {
			return r.cat.bad
		}
		return io.EOF
	}
	*b = Block{
		MEP:        r.mep,
		FirstEvent: r.event,
		Events:     len(r.batch),
		MFPs:       b.MFPs[:0],
	}
	r.tables(dst, b)
	if err := r.split(dst, b); err != nil {
		r.ended = true
		return err
	}
	if r.cfg.CRC {
		for i := range b.MFPs {
			m := &b.MFPs[i]
			m.CRC = crc32c.Sum(dst[m.Offset : m.Offset+m.Size])
		}
	}
	r.mep++
	r.event += uint64(len(r.batch))
	r.counters.deliver(b)
	return nil
}

// pick fills batch with the records of the next block.
func (r *Replay) pick() {
	r.batch = r.batch[:0]
	n := uint64(r.cfg.Packing)
	if r.cfg.Events > 0 {
		n = min(n, r.cfg.Events-r.event)
	}
	n = min(n, event.EndOfRun-r.event)
	for uint64(len(r.batch)) < n {
		if r.at == len(r.cat.records) && !r.rewind() {
			return
		}
		ref := r.cat.records[r.at]
		if ref.skipped > 0 {
			r.counters.skippedRecords.Add(uint64(ref.skipped))
			r.counters.skippedBytes.Add(uint64(r.cat.gaps[r.gap]))
			r.gap++
		}
		r.batch = append(r.batch, int32(r.at))
		r.at++
	}
}

// rewind goes back to the beginning, if the replay is to do so.
func (r *Replay) rewind() bool {
	if !r.passed {
		r.passed = true
		r.counters.skippedRecords.Add(uint64(r.cat.tailRecords))
		r.counters.skippedBytes.Add(uint64(r.cat.tailBytes))
	}
	if !r.cfg.Loop || r.cat.bad != nil || len(r.cat.records) == 0 {
		return false
	}
	r.before = r.due()
	r.at, r.gap, r.passed = 0, 0, false
	r.counters.loops.Add(1)
	return true
}

// tables writes the headers and tables of the MFPs and lays the block out.
func (r *Replay) tables(dst []byte, b *Block) {
	n, streams := len(r.batch), r.cabling.Streams()
	clear(r.starts)
	for _, at := range r.batch {
		for _, p := range r.partsOf(int(at)) {
			r.starts[p.stream] += int(p.size)
		}
	}
	for s := range streams {
		size := event.MFPHeaderSize(n) + r.starts[s]
		place := dst[b.Size:]
		types, sizes := event.MFPTables(place, n)
		for i := range n {
			types[i] = uint8(event.FragmentContainer)
		}
		clear(types[n:])
		clear(sizes)
		source := uint16(r.cfg.RU*streams + s)
		event.PutMFPHeader(place, event.MFPHeader{
			N:          n,
			Size:       uint32(size),
			FirstEvent: b.FirstEvent,
			Source:     source,
			Align:      containerAlign,
		})
		r.starts[s] = b.Size
		r.ends[s] = b.Size + event.MFPHeaderSize(n)
		b.MFPs = append(b.MFPs, MFPInfo{Source: source, Offset: b.Size, Size: size})
		b.Size += size // all parts are whole words
	}
	copy(r.stops, r.ends)
	table := event.MFPHeaderSize(n) - sizeTable(n)
	for i, at := range r.batch {
		for _, p := range r.partsOf(int(at)) {
			binary.LittleEndian.PutUint16(dst[r.starts[p.stream]+table+2*i:], p.size)
		}
	}
}

// sizeTable is the bytes of an MFP's size table for n fragments, which stands last in its header.
func sizeTable(n int) int { return roundUp(2 * n) }

// containerAlign is log2 of 4: banks are padded to words, so container fragments need no padding of their own.
const containerAlign = 2
