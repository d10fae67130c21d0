package source

import (
	"context"
	"encoding/binary"
	"fmt"

	"ringlet/event/placing"
	"ringlet/internal/crc32c"
	"ringlet/internal/netyield"
)

// PreparedSource reads the same generated blocks again and again, each time with its own event ids: what a detector's
// card does that writes into memory by itself, as far as the processor is concerned. It keeps no copy: the buffers that
// it is given in rotation are its memory. A block is generated when its buffer is used for the first time; later only
// the first event id of each MFP is written, and the ids in its fragments if they have one, and its CRC if one is asked
// for.
//
// MEP k has block k mod the number of blocks, in each readout unit of a run: fragments of one event are of one event of
// the generator's, however many buffers each unit has.
type PreparedSource struct {
	// immutable after NewPrepared
	gen         *Generator
	blockCount  int // different blocks
	bufferCount int // in the rotation, a multiple of blocks

	// owned by the goroutine that calls Next
	filledBuffers int    // buffers that hold their block
	mep           uint64 // next
}

// NewPrepared gives the blocks of c, of which there are blocks different ones, from buffers buffers in strict rotation:
// MEP k must come to buffer k mod buffers, which nobody else writes to. buffers is a multiple of blocks.
func NewPrepared(c GeneratorConfig, blocks, buffers int) (*PreparedSource, error) {
	if blocks < 1 || buffers < 1 {
		return nil, &ConfigError{"prepared", fmt.Sprintf("%d blocks in %d buffers are none", blocks, buffers)}
	}
	if buffers%blocks != 0 {
		return nil, &ConfigError{"prepared", fmt.Sprintf("%d buffers cannot keep %d blocks, each in its place: give a "+
			"multiple of %d buffers", buffers, blocks, blocks)}
	}
	c.prepared = blocks
	g, err := NewGenerator(c)
	if err != nil {
		return nil, err
	}
	return &PreparedSource{gen: g, blockCount: blocks, bufferCount: buffers}, nil
}

// MaxBlock is that of the generator.
func (p *PreparedSource) MaxBlock() int { return p.gen.maxBlock }

// Stats returns the counters so far.
func (p *PreparedSource) Stats() Stats { return p.gen.counters.stats() }

// Close ends the sequence.
func (p *PreparedSource) Close() error { return p.gen.Close() }

func (p *PreparedSource) beginAtMEP(_ context.Context, mep uint64) error {
	p.mep = mep
	return nil
}

// nextSpan is what the next MEP covers, and whether its buffer holds a block of that shape already.
func (p *PreparedSource) nextSpan() (first uint64, n int, filled bool, err error) {
	p.gen.mep = p.mep
	first, events, err := p.gen.nextSpan()
	full := events == uint64(p.gen.cfg.Packing)
	return first, int(events), full && p.mep%uint64(p.bufferCount) < uint64(p.filledBuffers), err
}

// firstContentEvent is the first event whose bytes the MEP's buffer holds: the same for all MEPs that come to the
// buffer.
func (p *PreparedSource) firstContentEvent() uint64 {
	return p.mep % uint64(p.blockCount) * uint64(p.gen.cfg.Packing)
}

// advance counts a buffer that was filled, and goes on to the next MEP.
func (p *PreparedSource) advance(full bool) {
	if buffer := int(p.mep % uint64(p.bufferCount)); full && buffer == p.filledBuffers {
		p.filledBuffers++
	}
	p.mep++
}

// Next gives the next block, in its buffer.
func (p *PreparedSource) Next(ctx context.Context, dst []byte, b *Block) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(dst) < p.gen.maxBlock {
		return &bufferTooSmallError{Have: len(dst), Need: p.gen.maxBlock}
	}
	first, n, there, err := p.nextSpan()
	if err != nil {
		return err
	}
	*b = Block{
		MEP:        p.mep,
		FirstEvent: first,
		Events:     n,
		MFPs:       b.MFPs[:0],
	}
	for s := range p.gen.streams {
		size, err := p.fillMFP(dst[b.Size:], s, first, n, there)
		if err != nil {
			return fmt.Errorf("prepare MEP %d: %w", p.mep, err)
		}
		crc := uint32(0)
		if p.gen.cfg.CRC {
			crc = crc32c.Sum(dst[b.Size : b.Size+size])
		}
		b.MFPs = append(b.MFPs, MFPInfo{
			Source: p.gen.source(s),
			Offset: b.Size,
			Size:   size,
			CRC:    crc,
		})
		b.Size = padToWord(dst, b.Size+size)
	}
	p.advance(n == p.gen.cfg.Packing)
	p.gen.counters.countBlock(b)
	return nil
}

// fillMFP makes the MFP of a stream, or gives the one that is there its event id.
func (p *PreparedSource) fillMFP(dst []byte, stream int, first uint64, n int, there bool) (size int, err error) {
	if there {
		size = int(binary.LittleEndian.Uint32(dst[mfpSizeAt:]))
	} else if size, _, err = p.gen.content.FillMFP(dst, p.gen.source(stream), p.firstContentEvent(), n,
		false); err != nil {
		return 0, err
	}
	binary.LittleEndian.PutUint64(dst[mfpFirstAt:], first)
	if by, ok := p.gen.content.(renumberer); ok {
		by.Renumber(dst[:size], first, n)
	}
	return size, nil
}

// Where an MFP's header has its size and its first event id, in bytes (docs/format/mfp.md).
const (
	mfpSizeAt  = 4
	mfpFirstAt = 8
)

// NextBlocks gives the next blocks, each in its buffer.
func (p *PreparedSource) NextBlocks(ctx context.Context, s BufferStrip, sizes []uint32) (BlockRun, error) {
	if err := p.gen.checkStrip(ctx, s, len(sizes)); err != nil {
		return BlockRun{}, err
	}
	run := BlockRun{MEP: p.mep}
	var sum mfpTally
	var err error
	since := 0
	for at := 0; run.Blocks < len(sizes); at += s.Stride {
		var first uint64
		var n int
		var there bool
		if first, n, there, err = p.nextSpan(); err != nil {
			break
		}
		size, ferr := p.fillPart(s.Mem[at:at+s.Stride:at+s.Stride], first, n, there, &sum)
		if ferr != nil {
			err = fmt.Errorf("prepare MEP %d: %w", p.mep, ferr)
			break
		}
		sizes[run.Blocks] = uint32(size)
		p.advance(n == p.gen.cfg.Packing)
		run.Blocks++
		run.Events += uint64(n)
		if since += size; since >= yieldBytes && !there {
			since = 0
			netyield.Yield()
		}
	}
	p.gen.counters.countRun(run, &sum)
	return run, err
}

func (p *PreparedSource) fillPart(buffer []byte, first uint64, n int, there bool, sum *mfpTally) (int, error) {
	at := p.gen.streams * placing.EntrySize
	for i := range p.gen.streams {
		size, err := p.fillMFP(buffer[at:], i, first, n, there)
		if err != nil {
			return 0, err
		}
		p.gen.sums.writeEntry(buffer, i, at, placing.Entry{Size: uint32(size)})
		sum.bytes += uint64(size)
		at = padToWord(buffer, at+size)
	}
	if p.gen.cfg.CRC {
		p.gen.sums.writeSums(buffer)
	}
	sum.mfps += uint64(p.gen.streams)
	return at, nil
}
