package source

import (
	"encoding/binary"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/crc32c"
)

// The way of a record through a replay, all in the goroutine that calls Next:
//
//  1. pick (sequential): the next records of the catalog, up to the packing factor
//  2. writeTables (sequential): headers and sizes of this RU's MFPs, from the sizes learnt at open
//  3. split (sequential): each bank of this RU's streams is copied once, from the mapped file to its place in the
//     caller's buffer; a compressed record is unpacked first
//  4. CRC-32C of each MFP (if asked)
//
// The caller owns the buffer; the mapping is read only. Next allocates nothing.

// ReplayConfig describes what one RU replays. All RUs of a run must have the same values but for RU and CRC, and must
// find the same file.
type ReplayConfig struct {
	Path string // a file
	RU   int    // index of this readout unit, from 0
	RUs  int    // readout units of the run
	// Division is the sources of each readout unit. If it is zero, the sources of the file are spread; for MDF, which has
	// no sources, it is the smallest number of streams, at least three for each unit, that the file allows.
	Division placing.Division
	Packing  int  // events per MFP, 1..65535
	Loop     bool // begin again at the end of the file; event ids go on
	// OnBadRecord is what happens at a record that cannot be used; the zero value is StopAtBadRecord.
	OnBadRecord    OnBadRecord
	Events         uint64 // events in all; zero is all of the file, or endless with Loop
	CRC            bool   // fill MFPInfo.CRC
	PaceAsRecorded bool   // for openRecorded: blocks come with the time differences in their records
}

// Replay gives the events of an MDF file as container fragments (docs/format/mdf.md, "Replay"), from which a builder
// unit rebuilds each record byte for byte; a record that is compressed in the file, as Record.Unpacked returns it.
type Replay struct {
	replayLoop

	// immutable after OpenReplay
	cat          *catalog
	cabling      *cabling
	fragments    []recordFragment // this RU's fragments that are not empty, record by record
	fragmentEnds []int            // by record: where its fragments end

	// owned by the goroutine that calls Next
	nextOffsets []int    // by stream: where the next bank goes
	currentEnds []int    // by stream: where the fragment of the current event ends
	mfpStarts   []int    // by stream: first the bytes of its fragments, then where its MFP begins
	wide        []bool   // by stream: its MFP is wide
	streams     []uint16 // of the banks of one record, which the record bank lists

	unpacked []byte // scratch for a record that is compressed in the file
}

// cablingOf returns the cabling, which says which stream carries which banks.
func (r *Replay) cablingOf() *cabling { return r.cabling }

// events returns the number of events that all blocks together have; endless says that there is no such number.
func (r *Replay) events() (n uint64, endless bool) {
	n = uint64(len(r.cat.records))
	if r.cfg.Loop && r.cat.badRecord == nil {
		return r.cfg.Events, r.cfg.Events == 0
	}
	if r.cfg.Events > 0 {
		n = min(n, r.cfg.Events)
	}
	return n, false
}

// badRecord returns the record that will end the replay, or nil. OpenReplay has found it.
func (r *Replay) badRecord() *BadRecordError { return r.cat.badRecord }

func (r *Replay) rowCount() int { return len(r.cat.records) }

func (r *Replay) rowAt(row int) (int, uint32) { return 1, r.cat.records[row].skippedBefore }

func (r *Replay) fill(dst []byte, b *Block) error {
	r.writeTables(dst, b)
	if err := r.split(dst, b); err != nil {
		return err
	}
	if r.cfg.CRC {
		for i := range b.MFPs {
			m := &b.MFPs[i]
			m.CRC = crc32c.Sum(dst[m.Offset : m.Offset+m.Size])
		}
	}
	return nil
}

// mfpTables gives the tables of an MFP, and the size of its header in bytes.
func mfpTables(place []byte, n int, wide bool) (types, sizes []byte, header int) {
	if wide {
		types, sizes = event.WideMFPTables(place, n)
		return types, sizes, event.WideMFPHeaderSize(n)
	}
	types, sizes = event.MFPTables(place, n)
	return types, sizes, event.MFPHeaderSize(n)
}

// putSize writes the size of fragment i into a table of sizes.
func putSize(sizes []byte, i, size int, wide bool) {
	if wide {
		binary.LittleEndian.PutUint32(sizes[4*i:], uint32(size))
	} else {
		binary.LittleEndian.PutUint16(sizes[2*i:], uint16(size))
	}
}

// addMFP appends an MFP of n fragments to the block in dst: its header, and tables in which all fragments have one
// type and no size yet. size is in bytes, in whole words.
func (b *Block) addMFP(dst []byte, source uint16, n, size int, bankType event.BankType, wide, worded bool) {
	place := dst[b.Size:]
	types, sizes, _ := mfpTables(place, n, wide)
	for i := range n {
		types[i] = uint8(bankType)
	}
	clear(types[n:])
	clear(sizes)
	event.PutMFPHeader(place, event.MFPHeader{
		NumFragments: n,
		Size:         uint32(size),
		FirstEvent:   b.FirstEvent,
		Source:       source,
		Align:        containerAlign,
		Wide:         wide,
		Worded:       worded,
	})
	b.MFPs = append(b.MFPs, MFPInfo{Source: source, Offset: b.Size, Size: size})
	b.Size += size
}

// writeTables writes the headers and tables of the MFPs and computes the places of the fragments.
func (r *Replay) writeTables(dst []byte, b *Block) {
	n := len(r.batch)
	clear(r.mfpStarts)
	clear(r.wide)
	for _, at := range r.batch {
		for _, p := range r.fragmentsOf(int(at.row)) {
			r.mfpStarts[p.stream] += p.size()
			r.wide[p.stream] = r.wide[p.stream] || p.size() > event.MaxNarrowFragment
		}
	}
	for s := range r.sourceCount {
		header := event.MFPHeaderSize(n)
		if r.wide[s] {
			header = event.WideMFPHeaderSize(n)
		}
		size := header + r.mfpStarts[s]
		r.mfpStarts[s], r.nextOffsets[s] = b.Size, b.Size+header
		b.addMFP(dst, uint16(r.firstSource+s), n, size, event.FragmentContainer, r.wide[s], false)
	}
	copy(r.currentEnds, r.nextOffsets)
	for i, at := range r.batch {
		for _, p := range r.fragmentsOf(int(at.row)) {
			wide := r.wide[p.stream]
			_, sizes, _ := mfpTables(dst[r.mfpStarts[p.stream]:], n, wide)
			putSize(sizes, i, p.size(), wide)
		}
	}
}

// containerAlign is log2 of 4: banks are padded to words, so container fragments need no padding of their own.
const containerAlign = 2
