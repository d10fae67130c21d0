package source

import (
	"context"
	"fmt"

	"ringlet/event/placing"
	"ringlet/internal/crc32c"
)

// MFPInfo is where one MFP stands in a block.
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

// listMFP lists an MFP that stands at the end of a block in dst, and makes room for the next one.
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
	// Close releases what the source holds. It may be called twice.
	Close() error
}

// bufferTooSmallError says that dst of a call to Next is smaller than MaxBlock: a mistake of the caller, nothing was
// consumed.
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

// checkShape looks at what every kind of source has in common.
func checkShape(ru int, d placing.Division, packing int) error {
	if err := d.Check(); err != nil {
		return &ConfigError{"streams", err.Error()}
	}
	return checkUnit(ru, d.Units(), packing)
}

// checkUnit is checkShape where nobody knows the sources yet.
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
