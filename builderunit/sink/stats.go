package sink

import (
	"sync/atomic"
	"time"
)

// SegmentsStats is how far an output has come.
type SegmentsStats struct {
	Bytes     uint64        `count:"output_written" unit:"bytes" help:"bytes given to the file so far, again included"`
	MEPs      uint64        `count:"output_meps_written" help:"MEPs given to the file, each with its index entry"`
	Flushes   uint64        `count:"output_flushes" help:"times that what was written was made safe"`
	Syncs     uint64        `count:"output_syncs" help:"times that data and index of a segment were synchronised"`
	Segments  uint64        `count:"output_segments" help:"segments closed"`
	WriteTime time.Duration `count:"output_write_us" help:"time writing data"`
	SyncTime  time.Duration `count:"output_sync_us" help:"time synchronising"`
}

type counters struct {
	bytes, meps, flushes, syncs, segments atomic.Uint64
	writing, syncing                      atomic.Int64 // ns
}

func (c *counters) wrote(n int, from time.Time) {
	c.bytes.Add(uint64(n))
	c.writing.Add(int64(time.Since(from)))
}

// Stats reads the counters, from any goroutine.
func (s *Segments) Stats() SegmentsStats {
	return SegmentsStats{
		Bytes:     s.count.bytes.Load(),
		MEPs:      s.count.meps.Load(),
		Flushes:   s.count.flushes.Load(),
		Syncs:     s.count.syncs.Load(),
		Segments:  s.count.segments.Load(),
		WriteTime: time.Duration(s.count.writing.Load()),
		SyncTime:  time.Duration(s.count.syncing.Load()),
	}
}

// Written is how many bytes were written so far: while it grows, the output makes progress. Any goroutine may ask.
func (s *Segments) Written() uint64 { return s.count.bytes.Load() }
