package source

import "sync/atomic"

// Stats are the counters of a source. Every event read is in exactly one of Events and SkippedRecords.
type Stats struct {
	Blocks         uint64 // blocks delivered
	MFPs           uint64 // MFPs in them
	Events         uint64 // events in them; each counts once, not once per stream
	Bytes          uint64 // bytes of the MFPs delivered, without the bytes between them
	SkippedRecords uint64 // records left out because they are bad (replay with OnBadRecord skip)
	SkippedBytes   uint64 // bytes of the file left out with them
	Loops          uint64 // times the file was begun again (replay)
	Waits          uint64 // blocks held back by pacing
	Lost           uint64 // events' worth of time given up because the consumer was too slow (pacing)
}

// counters is Stats as it is written: by the goroutine that calls Next, read by any.
type counters struct {
	blocks, mfps, events, bytes, skippedRecords, skippedBytes, loops atomic.Uint64
}

// deliver counts a block that is about to be returned.
func (c *counters) deliver(b *Block) {
	bytes := 0
	for i := range b.MFPs {
		bytes += b.MFPs[i].Size
	}
	c.blocks.Add(1)
	c.mfps.Add(uint64(len(b.MFPs)))
	c.events.Add(uint64(b.Events))
	c.bytes.Add(uint64(bytes))
}

// add counts a run of blocks.
func (c *counters) add(r Run, sum *tally) {
	c.blocks.Add(uint64(r.Blocks))
	c.mfps.Add(sum.mfps)
	c.events.Add(r.Events)
	c.bytes.Add(sum.bytes)
}

func (c *counters) stats() Stats {
	return Stats{
		Blocks: c.blocks.Load(), MFPs: c.mfps.Load(), Events: c.events.Load(), Bytes: c.bytes.Load(),
		SkippedRecords: c.skippedRecords.Load(), SkippedBytes: c.skippedBytes.Load(), Loops: c.loops.Load(),
	}
}
