package sink

import (
	"sync"
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

// counters are the SegmentsStats as they are counted.
type counters struct {
	mu  sync.Mutex
	now SegmentsStats
}

func (c *counters) add(what func(*SegmentsStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what(&c.now)
}

func (c *counters) wrote(n int, from time.Time) {
	c.add(func(s *SegmentsStats) { s.Bytes, s.WriteTime = s.Bytes+uint64(n), s.WriteTime+time.Since(from) })
}

// Stats reads the counters, from any goroutine.
func (s *Segments) Stats() (now SegmentsStats) {
	s.count.add(func(in *SegmentsStats) { now = *in })
	return now
}

// Written is how many bytes were written so far: while it grows, the output makes progress. Any goroutine may ask.
func (s *Segments) Written() uint64 { return s.Stats().Bytes }
