package source

import (
	"encoding/binary"
	"fmt"
)

// rotation lets a Generator give the same blocks again and again, each time with its own event ids: what a detector's
// card does that writes into memory by itself, as far as the processor is concerned. It keeps no copy: the buffers that
// it is given in rotation are its memory. A block is generated when its buffer is used for the first time; later only
// the first event id of each MFP is written, and the ids in its fragments if they have one, and its CRC if one is asked
// for.
//
// MEP k has block k mod the number of blocks, in each readout unit of a run: fragments of one event are of one event of
// the generator's, however many buffers each unit has.
type rotation struct {
	blockCount    uint64 // different blocks
	bufferCount   uint64 // a multiple of them
	filledBuffers uint64 // buffers that hold their block
}

// NewPrepared gives the blocks of c, of which there are blocks different ones, from buffers buffers in strict rotation:
// MEP k must come to buffer k mod buffers, which nobody else writes to. buffers is a multiple of blocks.
func NewPrepared(c GeneratorConfig, blocks, buffers int) (*Generator, error) {
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
	g.rotation = &rotation{blockCount: uint64(blocks), bufferCount: uint64(buffers)}
	return g, nil
}

// hasFilled tells that the buffer of a MEP holds its block already. Nil has none.
func (r *rotation) hasFilled(mep uint64) bool { return r != nil && mep%r.bufferCount < r.filledBuffers }

// noteFilled counts a buffer that was filled with a full block.
func (r *rotation) noteFilled(mep uint64) {
	if mep%r.bufferCount == r.filledBuffers {
		r.filledBuffers++
	}
}

// refillMFP makes the MFP of a stream of the next MEP, or gives the one that is there its event id. The bytes of a
// buffer are of the same events for all MEPs that come to it.
func (g *Generator) refillMFP(dst []byte, stream int, first uint64, n int) (size int, err error) {
	if g.hasNextFilled(n) {
		size = int(binary.LittleEndian.Uint32(dst[mfpSizeAt:]))
	} else {
		content := g.mep % g.rotation.blockCount * uint64(g.cfg.Packing)
		if size, _, err = g.content.FillMFP(dst, g.source(stream), content, n, false); err != nil {
			return 0, err
		}
	}
	binary.LittleEndian.PutUint64(dst[mfpFirstAt:], first)
	if by, ok := g.content.(renumberer); ok {
		by.Renumber(dst[:size], first, n)
	}
	return size, nil
}

// hasNextFilled tells that the next block, of n events, is in its buffer already.
func (g *Generator) hasNextFilled(n int) bool {
	return n == g.cfg.Packing && g.rotation.hasFilled(g.mep)
}

// Where an MFP's header has its size and its first event id, in bytes (docs/format/mfp.md).
const (
	mfpSizeAt  = 4
	mfpFirstAt = 8
)
