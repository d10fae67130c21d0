package source

import (
	"io"

	"ringlet/internal/registry"
)

// Content makes the bytes of generated data, MFP by MFP. One goroutine calls it. What has Renumber or WriteTruths too,
// as renumberer and truthWriter have them, is asked for that.
type Content interface {
	// MaxMFP is the size in bytes of the largest MFP of n events of a source.
	MaxMFP(source uint16, n int) int
	// FillMFP writes the MFP of n events of a source, the first event of that number, and says its size and, with
	// withCRC, its checksum.
	FillMFP(dst []byte, source uint16, first uint64, n int, withCRC bool) (size int, crc uint32, err error)
}

// renumberer is Content whose fragments name their event: what comes again under other numbers is told them.
type renumberer interface {
	Renumber(mfp []byte, first uint64, n int)
}

// truthWriter is Content that knows what happened at the events of its last block, and writes a line of JSON for each.
type truthWriter interface {
	WriteTruths(w io.Writer) error
}

// ContentConfig is what Content is made for.
type ContentConfig struct {
	Seed        uint64
	FirstSource int
	Sources     int   // of the unit
	Align       uint8 // log2 of the bytes fragments are padded to
	KeptBlocks  int   // blocks that are asked for again; 0 is the last one alone
}

// ContentKind is a row of the table of data that are made by a program and not by a rule (package pattern), as by a
// simulated detector: a simulation of one's own is such a row. Its name is a fragment model.
type ContentKind struct {
	registry.Kind
	MinSources int // of a whole run
	MaxSources int
	// MinMFP and MaxMFP bound the size in bytes of an MFP of n events.
	MinMFP, MaxMFP func(n int, align uint8) int
	Open           func(ContentConfig) (Content, error)
}
