package source

import (
	"context"
	"fmt"
	"io"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/internal/crc32c"
)

const (
	maxSources = pattern.MaxSources
	maxPacking = event.MaxPacking
	lastEvent  = event.EndOfRun
	wordBytes  = 4 // alignment of an MFP in a MEP (formats.md, MEP)
)

// GeneratorConfig describes what one RU generates. All RUs of a run, and the builder units that verify the data, must
// have the same values but for RU.
type GeneratorConfig struct {
	RU       int              // index of this readout unit, from 0
	Division placing.Division // the sources of each RU
	Packing  int              // events per MFP, 1..65535
	// FragmentSize is the mean over all sources, in bytes: pattern.DefaultFragmentSize (133) is the detector's. Zero is
	// not a default but a choice: empty fragments.
	FragmentSize   int
	Model          pattern.Model // the zero value is lhcb
	Seed           uint64
	Events         uint64 // events in all, the last MFP short if packing does not divide them; zero is endless
	Align          uint8  // log2 of the bytes fragments are padded to; zero is no padding
	CRC            bool   // fill MFPInfo.CRC
	LargeFragments pattern.LargeFragments
	// Content makes the data in place of package pattern, which alone uses FragmentSize, Model and LargeFragments.
	Content *ContentKind

	prepared int // different blocks that NewPrepared repeats
}

// content makes the Content that c describes, for one goroutine.
func (c GeneratorConfig) content() (Content, error) {
	if c.Content == nil {
		return c.Pattern()
	}
	if err := checkShape(c.RU, c.Division, c.Packing); err != nil {
		return nil, err
	}
	if n := c.Division.Sources(); n < c.Content.MinSources {
		return nil, &ConfigError{"sources", fmt.Sprintf("%d are fewer than the detector's %d boards: give each board one",
			n, c.Content.MinSources)}
	}
	return c.Content.Open(ContentConfig{
		Seed:        c.Seed,
		FirstSource: c.Division.FirstSource(c.RU),
		Sources:     c.Division.SourceCount(c.RU),
		Align:       c.Align,
		KeptBlocks:  c.prepared,
	})
}

// Pattern returns the rule of the generated data, by which a builder unit verifies them. It is the same for every RU.
func (c GeneratorConfig) Pattern() (*pattern.Pattern, error) {
	if err := checkShape(c.RU, c.Division, c.Packing); err != nil {
		return nil, err
	}
	return pattern.New(pattern.Config{
		Seed:           c.Seed,
		Sources:        c.Division.Sources(),
		FragmentSize:   c.FragmentSize,
		Model:          c.Model,
		Align:          c.Align,
		LargeFragments: c.LargeFragments,
	})
}

// Generator makes detector-like data (LHCb-EB §V.A): package pattern has the rule of their sizes and content, and
// ContentKind the data that a program makes.
type Generator struct {
	// immutable after NewGenerator
	cfg      GeneratorConfig
	content  Content
	first    int // id of the first source
	streams  int // sources
	maxBlock int

	// owned by the goroutine that calls Next
	mep      uint64
	closed   bool
	sums     partSums
	rotation *rotation // nil: each block is generated anew

	// atomic
	counters counters
}

// NewGenerator checks c and computes the tables of sizes. The error is a *ConfigError, a *pattern.ConfigError, or an
// error of the kind of content.
func NewGenerator(c GeneratorConfig) (*Generator, error) {
	made, err := c.content()
	if err != nil {
		return nil, err
	}
	g := &Generator{
		cfg:     c,
		content: made,
		first:   c.Division.FirstSource(c.RU),
		streams: c.Division.SourceCount(c.RU),
	}
	g.sums = newPartSums(g.streams)
	largest := 0
	for s := range g.streams {
		n := made.MaxMFP(g.source(s), c.Packing)
		largest = max(largest, n)
		g.maxBlock += roundUpToWord(n)
	}
	if int64(largest) > 1<<32-1 {
		return nil, &ConfigError{"packing", fmt.Sprintf(
			"MFPs of %d events may take %d bytes, more than the 4 GiB an MFP can have: lower the packing factor or the "+
				"fragment size", c.Packing, largest)}
	}
	return g, nil
}

func (g *Generator) beginAtMEP(_ context.Context, mep uint64) error {
	g.mep = mep
	return nil
}

// MaxBlock is the size of a block in which every fragment has the largest size that its source can have; the largest
// is 3.7 standard deviations above the mean.
func (g *Generator) MaxBlock() int { return g.maxBlock }

// WriteTruths writes what happened in the events of the last block, if the content is a truthWriter.
func (g *Generator) WriteTruths(w io.Writer) error {
	if c, ok := g.content.(truthWriter); ok {
		return c.WriteTruths(w)
	}
	return nil
}

// Stats returns the counters so far.
func (g *Generator) Stats() Stats { return g.counters.stats() }

// Close ends the sequence.
func (g *Generator) Close() error {
	g.closed = true
	return nil
}

func (g *Generator) source(stream int) uint16 { return uint16(g.first + stream) }

// Next generates the next block. It allocates nothing once b.MFPs has room.
func (g *Generator) Next(ctx context.Context, dst []byte, b *Block) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(dst) < g.maxBlock {
		return &bufferTooSmallError{Have: len(dst), Need: g.maxBlock}
	}
	first, n, err := g.nextSpan()
	if err != nil {
		return err
	}
	*b = Block{
		MEP:        g.mep,
		FirstEvent: first,
		Events:     int(n),
		MFPs:       b.MFPs[:0],
	}
	for s := range g.streams {
		size, crc, err := g.fillMFP(dst[b.Size:], s, first, int(n), g.cfg.CRC)
		if err != nil {
			return fmt.Errorf("generate MEP %d: %w", g.mep, err)
		}
		b.MFPs = append(b.MFPs, MFPInfo{
			Source: g.source(s),
			Offset: b.Size,
			Size:   size,
			CRC:    crc,
		})
		b.Size = padToWord(dst, b.Size+size)
	}
	g.advance(int(n))
	g.counters.countBlock(b)
	return nil
}

// fillMFP writes the MFP of one stream of the next block, of n events.
func (g *Generator) fillMFP(dst []byte, stream int, first uint64, n int, withCRC bool) (size int, crc uint32,
	err error) {
	if g.rotation == nil {
		return g.content.FillMFP(dst, g.source(stream), first, n, withCRC)
	}
	if size, err = g.refillMFP(dst, stream, first, n); err == nil && withCRC {
		crc = crc32c.Sum(dst[:size])
	}
	return size, crc, err
}

// advance goes on to the next MEP after a block of n events.
func (g *Generator) advance(n int) {
	if g.rotation != nil && n == g.cfg.Packing {
		g.rotation.noteFilled(g.mep)
	}
	g.mep++
}

func roundUpToWord(n int) int { return (n + wordBytes - 1) &^ (wordBytes - 1) }

// padToWord zeroes dst from end to the next multiple of a word, and returns that multiple.
func padToWord(dst []byte, end int) int {
	next := roundUpToWord(end)
	clear(dst[end:next])
	return next
}
