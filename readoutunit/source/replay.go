package source

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"slices"

	"ringlet/event"
)

// The way of a record through a replay, all in the goroutine that calls Next:
//
//  1. pick (sequential): the next records of the catalog, up to the packing factor
//  2. tables (sequential): headers and sizes of this RU's MFPs, from the sizes learnt at open
//  3. split (sequential): each bank of this RU's streams is copied once, from the mapped file to its place in the caller's buffer
//  4. CRC-32C of each MFP (if asked)
//
// The caller owns the buffer; the mapping is read only. Nothing is allocated.

// ReplayConfig describes what one RU replays. All RUs of a run must agree on all but RU and CRC, and must find the same file.
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
}

// Replay gives the events of an MDF file as container fragments (docs/format/mdf.md, "Replay"), so that a builder can put
// each record together again byte for byte.
type Replay struct {
	// immutable after OpenReplay
	cfg      ReplayConfig
	file     *mapping
	cat      *catalog
	cabling  *Cabling
	sizes    []uint16 // bytes of this RU's fragments: by record, then by stream
	maxBlock int
	maxMEP   int

	// owned by the goroutine that calls Next
	mep     uint64
	event   uint64 // id of the next event
	at      int    // record of the next event
	gap     int    // gaps before at
	passed  bool   // what is left out behind the last record was counted in this pass
	ended   bool   // the error of the bad record was given, or Close was called
	batch   []int32
	ends    []int    // by stream: where the next bank goes
	streams []uint16 // of the banks of one record, for the record bank

	// atomic
	counters counters
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenReplay maps the file, checks every record of it whole (0.45 to 0.55 GB/s measured on a busy machine: the checksum of MDF
// takes its bytes one by one), learns its cabling and computes the sizes of its blocks. A bad record is not an error here: Next gives it when its turn
// comes. The error is a *ConfigError, or that of opening the file.
func OpenReplay(c ReplayConfig) (*Replay, error) {
	if err := checkShape(c.RU, c.RUs, max(c.Streams, 1), c.Packing); err != nil {
		return nil, err
	}
	if c.Streams < 0 {
		return nil, &ConfigError{"streams", fmt.Sprintf("%d per readout unit is less than none", c.Streams)}
	}
	m, err := mapFile(c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot replay: %w", err)
	}
	r := &Replay{cfg: c, file: m}
	if err := r.open(); err != nil {
		_ = m.close()
		return nil, err
	}
	return r, nil
}

// open learns what the mapped file holds.
func (r *Replay) open() (err error) {
	defer r.guard(debug.SetPanicOnFault(true), &err)
	c := r.cfg
	r.cat = scan(r.file.data, c.Path, c.Events, c.OnBadRecord)
	if c.Loop && len(r.cat.records) == 0 && r.cat.bad == nil {
		return &ConfigError{"loop", fmt.Sprintf("%s holds no event that could be repeated", c.Path)}
	}
	if r.cabling, err = newCabling(r.cat, r.file.data, c.RUs, c.Streams); err != nil {
		return err
	}
	r.measure()
	r.ends = make([]int, r.cabling.Streams())
	r.batch = make([]int32, 0, c.Packing)
	return nil
}

// measure computes the sizes of this RU's fragments and the bounds of blocks and MEPs.
func (r *Replay) measure() {
	streams := r.cabling.Streams()
	own := make([]int, len(r.cat.records)) // bytes of this RU's fragments, by record
	all := make([]int, len(r.cat.records))
	r.sizes = make([]uint16, 0, streams*len(r.cat.records))
	sums := make([]uint32, r.cabling.Sources())
	banks := uint32(0)
	for i, ref := range r.cat.records {
		r.cabling.sizes(ref, r.file.data, sums)
		for _, n := range sums {
			all[i] += int(n)
		}
		for _, n := range sums[r.cfg.RU*streams:][:streams] {
			own[i] += int(n)
			r.sizes = append(r.sizes, uint16(n))
		}
		banks = max(banks, ref.banks)
	}
	header := event.MFPHeaderSize(r.cfg.Packing)
	r.maxBlock = streams*header + heaviest(own, r.cfg.Packing, r.cfg.Loop)
	r.maxMEP = r.cabling.Sources()*header + heaviest(all, r.cfg.Packing, r.cfg.Loop)
	r.streams = make([]uint16, 0, banks)
}

// heaviest is the largest sum of packing consecutive weights that a block can have: blocks begin at multiples of packing, or,
// in a loop, anywhere, and then go on from the last weight to the first.
func heaviest(weights []int, packing int, loop bool) int {
	most, n := 0, len(weights)
	if n == 0 {
		return 0
	}
	if !loop {
		for block := range slices.Chunk(weights, packing) {
			sum := 0
			for _, w := range block {
				sum += w
			}
			most = max(most, sum)
		}
		return most
	}
	total, window := 0, 0
	for i, w := range weights {
		total += w
		if i < packing%n {
			window += w
		}
	}
	for i := range weights {
		most = max(most, window)
		window += weights[(i+packing%n)%n] - weights[i]
	}
	return packing/n*total + most
}

// Cabling says which stream carries which banks.
func (r *Replay) Cabling() *Cabling { return r.cabling }

// Events is the number of events that Next will give, all blocks together; endless says that there is no such number.
func (r *Replay) Events() (n uint64, endless bool) {
	n = uint64(len(r.cat.records))
	if r.cfg.Loop && r.cat.bad == nil {
		return r.cfg.Events, r.cfg.Events == 0
	}
	if r.cfg.Events > 0 {
		n = min(n, r.cfg.Events)
	}
	return n, false
}

// Bad is the record that will end the replay, or nil. It is known from the beginning.
func (r *Replay) Bad() *BadRecordError { return r.cat.bad }

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
		return &RoomError{Have: len(dst), Need: r.maxBlock}
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
	*b = Block{MEP: r.mep, FirstEvent: r.event, Events: len(r.batch), MFPs: b.MFPs[:0]}
	r.tables(dst, b)
	if err := r.split(dst, b); err != nil {
		r.ended = true
		return err
	}
	if r.cfg.CRC {
		for i := range b.MFPs {
			m := &b.MFPs[i]
			m.CRC = crc32.Checksum(dst[m.Offset:m.Offset+m.Size], castagnoli)
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
	r.at, r.gap, r.passed = 0, 0, false
	r.counters.loops.Add(1)
	return true
}

// tables writes the headers and tables of the MFPs and lays the block out.
func (r *Replay) tables(dst []byte, b *Block) {
	n, streams := len(r.batch), r.cabling.Streams()
	for s := range streams {
		place := dst[b.Size:]
		types, sizes := event.MFPTables(place, n)
		size := event.MFPHeaderSize(n)
		for i, at := range r.batch {
			fragment := r.sizes[int(at)*streams+s]
			types[i] = uint8(event.FragmentContainer)
			binary.LittleEndian.PutUint16(sizes[2*i:], fragment)
			size += int(fragment)
		}
		clear(types[n:])
		clear(sizes[2*n:])
		source := uint16(r.cfg.RU*streams + s)
		event.PutMFPHeader(place, event.MFPHeader{
			N: n, Size: uint32(size), FirstEvent: b.FirstEvent, Source: source, Align: containerAlign,
		})
		r.ends[s] = b.Size + event.MFPHeaderSize(n)
		b.MFPs = append(b.MFPs, MFPInfo{Source: source, Offset: b.Size, Size: size})
		b.Size += size // all parts are whole words
	}
}

// containerAlign is log2 of 4: banks are padded to words, so container fragments need no padding of their own.
const containerAlign = 2
