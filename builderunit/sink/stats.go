package sink

import (
	"sync"
	"time"
)

// SegmentsStats are the counters of a Segments.
type SegmentsStats struct {
	Bytes     uint64        `count:"output_written" unit:"bytes" help:"bytes given to the file so far, repetitions included"`
	MEPs      uint64        `count:"output_meps_written" help:"MEPs given to the file, each with its index entry"`
	Flushes   uint64        `count:"output_flushes" help:"times that what was written was made safe"`
	Syncs     uint64        `count:"output_syncs" help:"times that data and index of a segment were synchronised"`
	Segments  uint64        `count:"output_segments" help:"segments closed"`
	WriteTime time.Duration `count:"output_write_us" help:"time writing data"`
	SyncTime  time.Duration `count:"output_sync_us" help:"time synchronising"`
}

// counted is counters that any goroutine may update.
type counted[Stats any] struct {
	mu    sync.Mutex
	stats Stats
}

func (c *counted[Stats]) update(what func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what(&c.stats)
}

func (c *counted[Stats]) read() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// addWrite counts a write that began at from.
func (s *SegmentsStats) addWrite(bytes int, from time.Time) {
	s.Bytes, s.WriteTime = s.Bytes+uint64(bytes), s.WriteTime+time.Since(from)
}

// Stats reads the counters, from any goroutine.
func (s *Segments) Stats() SegmentsStats { return s.count.read() }

// Written returns how many bytes were written so far: while it grows, the output makes progress. Any goroutine may
// call it.
func (s *Segments) Written() uint64 { return s.Stats().Bytes }

// Add adds the counters of another output.
func (s *SegmentsStats) Add(o SegmentsStats) {
	s.Bytes, s.MEPs, s.Flushes, s.Syncs = s.Bytes+o.Bytes, s.MEPs+o.MEPs, s.Flushes+o.Flushes, s.Syncs+o.Syncs
	s.Segments, s.WriteTime, s.SyncTime = s.Segments+o.Segments, s.WriteTime+o.WriteTime, s.SyncTime+o.SyncTime
}

// Add adds the counters of another output.
func (s *BufferStats) Add(o BufferStats) {
	s.DeadReaders, s.LostMEPs = s.DeadReaders+o.DeadReaders, s.LostMEPs+o.LostMEPs
	s.SupersededMEPs, s.OverwrittenMEPs, s.UnreadMEPs = s.SupersededMEPs+o.SupersededMEPs,
		s.OverwrittenMEPs+o.OverwrittenMEPs, s.UnreadMEPs+o.UnreadMEPs
}

// Add adds the counters of another output.
func (s *DatagramStats) Add(o DatagramStats) {
	s.SentSegments, s.ConnRefusals, s.SentSyncs = s.SentSegments+o.SentSegments, s.ConnRefusals+o.ConnRefusals,
		s.SentSyncs+o.SentSyncs
}
