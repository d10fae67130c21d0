package source

import (
	"encoding/binary"
	"fmt"
)

// rotation lets a Generator give the same blocks again and again, each time with other event ids, at the cost that a
// detector's card would have which writes into memory by itself. It keeps no copy: the caller's buffers, which come in
// rotation, are its memory. The Generator generates a block when its buffer comes for the first time; later it writes
// only the first event id of each MFP, the ids in its fragments if they have one, and its CRC if the configuration
// asks for it.
//
// MEP k has block k mod blockCount in each readout unit of a run, so that the fragments of one event belong together,
// however many buffers each unit has.
type rotation struct {
	blockCount    uint64 // different blocks
	bufferCount   uint64 // a multiple of them
	filledBuffers uint64 // buffers that hold their block
}

// NewPrepared returns a Generator that repeats the first blocks blocks of c, in buffers buffers in strict rotation:
// the caller passes buffer k mod buffers for MEP k, and no other code writes to it. buffers is a multiple of blocks.
func NewPrepared(c GeneratorConfig, blocks, buffers int) (*Generator, error) {
	if blocks < 1 || buffers < 1 {
		return nil, &ConfigError{"prepared", fmt.Sprintf("%d blocks in %d buffers: give at least 1 each", blocks, buffers)}
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

// hasFilled says that the buffer of a MEP holds its block already. A nil rotation has none.
func (r *rotation) hasFilled(mep uint64) bool { return r != nil && mep%r.bufferCount < r.filledBuffers }

// noteFilled counts a buffer that was filled with a full block.
func (r *rotation) noteFilled(mep uint64) {
	if mep%r.bufferCount == r.filledBuffers {
		r.filledBuffers++
	}
}

// refillMFP generates the MFP of a stream of the next MEP, or gives the MFP that is in dst already its new event ids:
// for all MEPs that come to a buffer, the block in it is the same.
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

// hasNextFilled says that the next block, of n events, is in its buffer already.
func (g *Generator) hasNextFilled(n int) bool {
	return n == g.cfg.Packing && g.rotation.hasFilled(g.mep)
}

// Offsets in bytes of the size and the first event id in an MFP's header (docs/format/mfp.md).
const (
	mfpSizeAt  = 4
	mfpFirstAt = 8
)
