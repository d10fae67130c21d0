package source

import (
	"context"
	"fmt"
	"io"

	"ringlet/event/placing"
	"ringlet/internal/crc32c"
	"ringlet/internal/netyield"
)

// MFPInfo says where one MFP stands in a block.
type MFPInfo struct {
	Source uint16 // global source id
	Offset int    // bytes from the block's start, a multiple of 4
	Size   int    // bytes, header included
	CRC    uint32 // CRC-32C of the Size bytes; 0 if the configuration does not ask for it
}

// Block is what one RU reads for one MEP: one MFP of each of its sources, contiguous, each beginning at a multiple of 4
// bytes, in order of source id.
type Block struct {
	MEP        uint64 // number of the MEP, from 0
	FirstEvent uint64 // event id of the first fragment of each MFP
	Events     int    // fragments of each MFP: the packing factor, or less in the last block
	Size       int    // bytes of the block, a multiple of 4; bytes between MFPs are zero
	MFPs       []MFPInfo
}

// listMFP adds the MFP that stands at the end of a block in dst to the list, and pads dst for the next one.
func (b *Block) listMFP(dst []byte, source uint16, size int, withCRC bool) {
	m := MFPInfo{Source: source, Offset: b.Size, Size: size}
	if withCRC {
		m.CRC = crc32c.Sum(dst[b.Size : b.Size+size])
	}
	b.MFPs = append(b.MFPs, m)
	b.Size = padToWord(dst, b.Size+size)
}

// Source gives the blocks of one RU, in order.
//
// Next writes the next block to the beginning of dst, which must have room for MaxBlock bytes, and describes it in b,
// whose slice is reused. It writes nothing beyond b.Size. After the last block, and after Close, it returns io.EOF. For
// bad input it returns a *BadRecordError, then io.EOF. When ctx ends it returns ctx's error and has consumed nothing.
//
// One goroutine calls Next and Close. Stats may be called by any.
type Source interface {
	Next(ctx context.Context, dst []byte, b *Block) error
	// MaxBlock is an upper bound of Block.Size, in bytes. No block exceeds it.
	MaxBlock() int
	// Stats returns the counters so far.
	Stats() Stats
	// Close releases the memory and files of the source. It may be called twice.
	Close() error
}

// bufferTooSmallError says that dst of a call to Next is smaller than MaxBlock: a mistake of the caller. Next has
// consumed nothing.
type bufferTooSmallError struct{ Have, Need int }

func (e *bufferTooSmallError) Error() string {
	return fmt.Sprintf("a block may take %d bytes, the buffer given has %d", e.Need, e.Have)
}

// ConfigError says which field of a source's configuration cannot be used, and why.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return fmt.Sprintf("source: %s: %s", e.Field, e.Reason) }

// checkShape checks the parameters that every kind of source has.
func checkShape(ru int, d placing.Division, packing int) error {
	if err := d.Check(); err != nil {
		return &ConfigError{"streams", err.Error()}
	}
	return checkUnit(ru, d.Units(), packing)
}

// checkUnit is checkShape without the division, before the number of sources is known.
func checkUnit(ru, rus, packing int) error {
	switch {
	case rus < 1 || rus > maxSources:
		return &ConfigError{"readout units", fmt.Sprintf("%d is not between 1 and %d", rus, maxSources)}
	case ru < 0 || ru >= rus:
		return &ConfigError{"readout unit", fmt.Sprintf("number %d is not one of the %d, which count from 0", ru, rus)}
	case packing < 1 || packing > maxPacking:
		return &ConfigError{"packing", fmt.Sprintf("%d events per MFP is not between 1 and %d", packing, maxPacking)}
	}
	return nil
}

// A BufferStrip is memory for the parts of consecutive blocks: retention buffers of Stride bytes, one after the other.
// A part is a placing.Entry for each MFP, then the block, as it goes into a slot whose windows are pre-granted.
type BufferStrip struct {
	Mem    []byte
	Stride int // bytes of a buffer, at least placing.PartSize of the sources and MaxBlock
}

// A BlockRun is a number of consecutive blocks.
type BlockRun struct {
	MEP    uint64 // of the first block
	Blocks int
	Events uint64 // in all of them
}

// BatchSource is a Source that gives many blocks in one call.
type BatchSource interface {
	Source
	// NextBlocks writes the next blocks, at least one and at most len(sizes), each as a part to a buffer of its own, and
	// the parts' sizes to sizes. It may write fewer than len(sizes). Errors are those of Next; with an error, BlockRun
	// still counts the blocks before it.
	NextBlocks(ctx context.Context, s BufferStrip, sizes []uint32) (BlockRun, error)
}

// AsBatchSource returns src, with NextBlocks built on its Next if it has none. streams is the number of MFPs in each
// block.
func AsBatchSource(src Source, streams int) BatchSource {
	if m, ok := src.(BatchSource); ok {
		return m
	}
	return &blockByBlock{Source: src, entriesSize: streams * placing.EntrySize}
}

type blockByBlock struct {
	Source
	entriesSize int   // bytes of entries
	block       Block // scratch
}

// NextBlocks returns one block at a time, since the source may wait before each of them.
func (o *blockByBlock) NextBlocks(ctx context.Context, s BufferStrip, sizes []uint32) (BlockRun, error) {
	b := &o.block
	if err := o.Next(ctx, s.Mem[o.entriesSize:s.Stride], b); err != nil {
		return BlockRun{}, err
	}
	if n := len(b.MFPs); n*placing.EntrySize != o.entriesSize {
		return BlockRun{}, fmt.Errorf("MEP %d came with %d MFPs where each has %d", b.MEP, n, o.entriesSize/placing.EntrySize)
	}
	for i := range b.MFPs {
		placing.PutEntry(s.Mem, i, placing.Entry{Size: uint32(b.MFPs[i].Size), CRC: b.MFPs[i].CRC})
	}
	sizes[0] = uint32(o.entriesSize + b.Size)
	return BlockRun{MEP: b.MEP, Blocks: 1, Events: uint64(b.Events)}, nil
}

// yieldBytes is how many bytes NextBlocks generates before other goroutines may run: a process that shares its only
// processor with the network must let the network run. If no goroutine waits, a yield costs 0.1 µs in 10 (see
// pattern.FillMFP).
const yieldBytes = 64 << 10

// nextSpan returns the first event of the next block and the number of its events; io.EOF after the last block.
func (g *Generator) nextSpan() (first, n uint64, err error) {
	first, n = g.mep*uint64(g.cfg.Packing), uint64(g.cfg.Packing)
	if g.cfg.Events > 0 {
		if first >= g.cfg.Events {
			return 0, 0, io.EOF
		}
		n = min(n, g.cfg.Events-first)
	}
	if g.closed || first > lastEvent-n {
		return 0, 0, io.EOF
	}
	return first, n, nil
}

// NextBlocks generates len(sizes) blocks, or fewer at the end of the events. It allocates nothing.
func (g *Generator) NextBlocks(ctx context.Context, s BufferStrip, sizes []uint32) (BlockRun, error) {
	if err := g.checkStrip(ctx, s, len(sizes)); err != nil {
		return BlockRun{}, err
	}
	run := BlockRun{MEP: g.mep}
	var sum mfpTally
	var err error
	since := 0
	for at := 0; run.Blocks < len(sizes); at += s.Stride {
		var first, n uint64
		if first, n, err = g.nextSpan(); err != nil {
			break
		}
		there := g.hasNextFilled(int(n))
		size, ferr := g.fillPart(s.Mem[at:at+s.Stride:at+s.Stride], first, int(n), &sum)
		if ferr != nil {
			err = fmt.Errorf("generate MEP %d: %w", g.mep, ferr)
			break
		}
		sizes[run.Blocks] = uint32(size)
		g.advance(int(n))
		run.Blocks++
		run.Events += n
		if since += size; since >= yieldBytes && !there {
			since = 0
			netyield.Yield()
		}
	}
	g.counters.countRun(run, &sum)
	return run, err
}

func (g *Generator) checkStrip(ctx context.Context, s BufferStrip, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	need := placing.PartSize(g.streams, g.maxBlock)
	switch {
	case s.Stride < need:
		return &bufferTooSmallError{Have: s.Stride, Need: need}
	case n < 1 || len(s.Mem) < n*s.Stride:
		return &bufferTooSmallError{Have: len(s.Mem), Need: max(1, n) * s.Stride}
	}
	return nil
}

// mfpTally is the MFPs, and their bytes, that one NextBlocks adds to the counters.
type mfpTally struct{ mfps, bytes uint64 }

// fillPart generates the MFPs of n events from event first into a buffer, after their entries.
func (g *Generator) fillPart(buffer []byte, first uint64, n int, sum *mfpTally) (int, error) {
	together := g.cfg.CRC && (g.rotation != nil || g.maxBlock <= maxBatchedSumBytes)
	at := g.streams * placing.EntrySize
	for i := range g.streams {
		size, crc, err := g.fillMFP(buffer[at:], i, first, n, g.cfg.CRC && !together)
		if err != nil {
			return 0, err
		}
		g.sums.writeEntry(buffer, i, at, placing.Entry{Size: uint32(size), CRC: crc})
		sum.bytes += uint64(size)
		at = padToWord(buffer, at+size)
	}
	if together {
		g.sums.writeSums(buffer)
	}
	sum.mfps += uint64(g.streams)
	return at, nil
}

// maxBatchedSumBytes is the largest block, in bytes, whose MFPs get their CRCs together after all of them are written:
// the MFPs are still in the first-level cache then.
const maxBatchedSumBytes = 8 << 10

// partSums computes the CRCs of a part's MFPs together. It is scratch memory, used for one part after the other.
type partSums struct {
	pieces [][]byte
	sums   []uint32
}

func newPartSums(streams int) partSums {
	return partSums{make([][]byte, streams), make([]uint32, streams)}
}

// writeEntry writes entry i of a part, whose MFP stands at offset at of the buffer.
func (p *partSums) writeEntry(buffer []byte, i, at int, e placing.Entry) {
	placing.PutEntry(buffer, i, e)
	p.pieces[i] = buffer[at : at+int(e.Size)]
}

// writeSums writes the CRCs of all MFPs into their entries.
func (p *partSums) writeSums(buffer []byte) {
	crc32c.Sums(p.sums, p.pieces)
	for i, sum := range p.sums {
		placing.PutEntry(buffer, i, placing.Entry{Size: uint32(len(p.pieces[i])), CRC: sum})
	}
}
