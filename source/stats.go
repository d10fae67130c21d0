package source

import "sync/atomic"

// Stats are the counters of a source. Every event read is in exactly one of Events and SkippedRecords.
type Stats struct {
	Blocks         uint64 `count:"meps_read" help:"blocks taken from the source, one MFP of each stream"`
	MFPs           uint64 `count:"-"` // MFPs in them, which the unit counts
	Events         uint64 `count:"events_read" help:"events taken from the source, not counted per stream"`
	Bytes          uint64 `count:"bytes_read" unit:"bytes" help:"bytes of MFPs taken from the source"`
	SkippedRecords uint64 `count:"records_skipped" help:"bad records left out"`
	SkippedBytes   uint64 `count:"bytes_skipped" unit:"bytes" help:"bytes of the input left out with bad records"`
	Loops          uint64 `help:"times that the input began again"`
	PacedBlocks    uint64 `count:"paced" help:"blocks held back by --rate"`
	PaceLostEvents uint64 `count:"pace_lost" help:"events that --rate allowed and that the unit was too slow for"`
}

// counters is Stats while it is counted: the goroutine that calls Next writes it, and any goroutine reads it.
type counters struct {
	blocks, mfps, events, bytes, skippedRecords, skippedBytes, loops atomic.Uint64
}

// countBlock counts a block that Next is about to return.
func (c *counters) countBlock(b *Block) {
	bytes := 0
	for i := range b.MFPs {
		bytes += b.MFPs[i].Size
	}
	c.blocks.Add(1)
	c.mfps.Add(uint64(len(b.MFPs)))
	c.events.Add(uint64(b.Events))
	c.bytes.Add(uint64(bytes))
}

// countRun counts the blocks that one NextBlocks returns.
func (c *counters) countRun(r BlockRun, sum *mfpTally) {
	c.blocks.Add(uint64(r.Blocks))
	c.mfps.Add(sum.mfps)
	c.events.Add(r.Events)
	c.bytes.Add(sum.bytes)
}

func (c *counters) stats() Stats {
	return Stats{
		Blocks:         c.blocks.Load(),
		MFPs:           c.mfps.Load(),
		Events:         c.events.Load(),
		Bytes:          c.bytes.Load(),
		SkippedRecords: c.skippedRecords.Load(),
		SkippedBytes:   c.skippedBytes.Load(),
		Loops:          c.loops.Load(),
	}
}
