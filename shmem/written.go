package shmem

import "ringlet/internal/invariants"

// Bytes by segment are counted only while somebody asks for them: else AddWritten is a load. A window counts what is
// put into it, and Revoke adds that to its segment.

// AddWritten notes that n bytes were put into a window. The goroutine that has pinned it calls it before Release; where
// a peer's process stored the bytes, the owner calls it when it is told.
func (t *Table) AddWritten(r Ref, n uint32) {
	if t.writtenWatchers.Load() == 0 {
		return
	}
	if uint64(r.Window) < uint64(len(t.windows)) {
		t.windows[r.Window].writtenBytes.Add(uint64(n))
	}
}

// CountWritten begins to count the bytes that are put into each segment, until as many calls have been ended by stop,
// which each caller calls once. What was counted stays.
func (t *Table) CountWritten() (stop func()) {
	t.writtenWatchers.Add(1)
	return func() {
		callers := t.writtenWatchers.Add(-1)
		invariants.Check(callers >= 0, "the bytes of segments are counted for %d callers", callers)
	}
}

// Written puts the bytes that were counted into to, by the number of the segment less one. It returns how many segments
// there were ever, which may be more than to has room for. It walks all windows under the table's mutex and allocates
// nothing.
func (t *Table) Written(to []uint64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(to)
	copy(to, t.writtenBytes)
	for i := range t.windows {
		w := &t.windows[i]
		if w.mem != nil && int(w.seg) <= len(to) {
			to[w.seg-1] += w.writtenBytes.Load()
		}
	}
	return len(t.exports)
}

// SegmentNames are the names of all segments that were ever exported, by their numbers less one; empty for memory that
// has no name.
func (t *Table) SegmentNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.segmentNames...)
}
