package source

import (
	"io"

	"ringlet/internal/registry"
)

// Content makes the bytes of generated data, MFP by MFP. One goroutine calls it. The Generator also calls Renumber and
// WriteTruths of a Content that implements renumberer or truthWriter.
type Content interface {
	// MaxMFP is the size in bytes of the largest MFP of n events of a source.
	MaxMFP(source uint16, n int) int
	// FillMFP writes the MFP of n events of a source, from event number first on, and returns its size and, with withCRC,
	// its CRC-32C.
	FillMFP(dst []byte, source uint16, first uint64, n int, withCRC bool) (size int, crc uint32, err error)
}

// renumberer is Content whose fragments name their event: a prepared block that comes again has other event numbers,
// and Renumber writes them.
type renumberer interface {
	Renumber(mfp []byte, first uint64, n int)
}

// truthWriter is Content that knows what happened in the events of its last block, and writes one line of JSON for
// each event.
type truthWriter interface {
	WriteTruths(w io.Writer) error
}

// ContentConfig is the part of a run that Content is made for.
type ContentConfig struct {
	Seed        uint64
	FirstSource int
	Sources     int   // of the unit
	Align       uint8 // log2 of the bytes fragments are padded to
	KeptBlocks  int   // the last blocks whose truths may be asked for; 0 is the last one alone
}

// ContentKind is a row of the table of data that a program makes, such as a simulated detector, rather than the rule
// of package pattern. Users add their own simulation as such a row. Its name is a fragment model.
type ContentKind struct {
	registry.Kind
	MinSources int // of a whole run
	MaxSources int
	// MinMFP and MaxMFP bound the size in bytes of an MFP of n events.
	MinMFP, MaxMFP func(n int, align uint8) int
	Open           func(ContentConfig) (Content, error)
}
