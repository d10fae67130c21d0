package sink

import (
	"sync/atomic"
	"time"
)

// SegmentsStats is how far an output has come.
type SegmentsStats struct {
	Bytes     uint64        // written, of data
	MEPs      uint64        // written, each with its entry in the index
	Flushes   uint64        // calls of Flush that did something
	Syncs     uint64        // times that data and index of a segment were synchronised
	Segments  uint64        // closed
	WriteTime time.Duration // spent writing data
	SyncTime  time.Duration // spent synchronising
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
