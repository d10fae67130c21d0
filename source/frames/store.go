package frames

import (
	"sync"

	"ringlet/internal/hugepages"
	"ringlet/source/live"
)

// The path of a fragment:
//
//  1. reader (one goroutine, of the attached session): readSpace returns a piece of the ring buffer, the reader reads
//     the connection into it, and commitRead says how much came.
//  2. reader: unparsedBytes returns the bytes that are received and not parsed; enqueue queues a fragment in them, skip
//     passes over bytes that are not handed out. Only a frame that the ring's end would cut in two is copied.
//  3. consumer (the goroutine that calls Next): handOut hands out queued fragments, and freeFragments returns their
//     memory to the reader.
//
// Memory from freeBelow to unparsedBegin belongs to the consumer, from unparsedBegin to unparsedEnd to the reader, and
// the rest is free. Both sides allocate nothing.

const (
	// storeSize is how many bytes a feed receives before the consumer takes any, unless fragments are large: at 10 Gbit/s
	// those of 13 ms, more than a readout unit waits for a retention buffer in a run that keeps up.
	storeSize = 16 << 20
	// maxQueuedFragments is how many fragments the store holds: fragments of 256 bytes fill it.
	maxQueuedFragments = 1 << 16
	// maxReadBytes is how many bytes one read takes at most, so that the first of them are handed out soon.
	maxReadBytes = 1 << 18
	// reuseFrom is which part of its memory an empty store has written before it begins anew.
	reuseFrom = 16
)

// StoreBytes is the size in bytes of the store of a feed whose largest fragment has most bytes: storeSize or, for large
// fragments, two frames with the rest of a read. The ring's end wastes at most one frame.
func StoreBytes(most int) int { return max(storeSize, 2*(most+frameSize+16)+maxReadBytes) }

// queuedFragment is a fragment in the store.
type queuedFragment struct {
	live.Fragment
	end uint64 // position after it
}

// fragmentStore is a ring buffer with one reader and one consumer. Positions count bytes since it was made; position p
// is byte p mod len(mem).
type fragmentStore struct {
	mem             []byte        // immutable
	fragmentsQueued chan struct{} // capacity 1: a mark wakes the consumer
	memoryFreed     chan struct{} // capacity 1: a mark wakes the reader

	unparsedBegin, unparsedEnd uint64 // owned by the reader: received and not parsed
	unpublished                int    // owned by the reader: entries after last that are not published

	mu sync.Mutex
	// The consumer owns entries [first, last), the reader those from last up to first again.
	ring      []queuedFragment
	first     uint64 // handed out, and not freed
	handedOut uint64 // queued, and not handed out
	last      uint64
	freeBelow uint64 // memory below is free
}

// newStore returns a store with room for size bytes and for the given number of fragments.
func newStore(size, fragments int) *fragmentStore {
	return &fragmentStore{
		mem:             hugepages.Advise(make([]byte, size)),
		fragmentsQueued: make(chan struct{}, 1),
		memoryFreed:     make(chan struct{}, 1),
		ring:            make([]queuedFragment, fragments),
	}
}

// wake leaves a token for the goroutine that waits at c, or will wait.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// unparsedBytes returns the bytes that are received and not parsed. Queued fragments stay where they are in them.
func (s *fragmentStore) unparsedBytes() []byte {
	at := s.unparsedBegin % uint64(len(s.mem))
	return s.mem[at : at+s.unparsedEnd-s.unparsedBegin]
}

// readSpace returns memory to read into, so that need bytes from unparsedBegin on fit; empty if the consumer must free
// memory first. It may move the unparsed bytes to the ring's beginning.
func (s *fragmentStore) readSpace(need int) []byte {
	size := uint64(len(s.mem))
	s.mu.Lock()
	if s.first == s.last && s.unpublished == 0 {
		// What was written before is in the page table, and may be in a cache.
		if at := s.unparsedBegin % size; at >= size/reuseFrom && s.unparsedEnd-s.unparsedBegin < frameSize {
			s.moveUnparsed()
		}
		s.freeBelow = s.unparsedBegin
	}
	tail := s.freeBelow
	s.mu.Unlock()
	if at := s.unparsedBegin % size; at+uint64(need) > size {
		if begin := s.unparsedBegin - at + size; begin+uint64(need) > tail+size {
			return nil
		}
		s.moveUnparsed()
	}
	if s.unparsedBegin+uint64(need) > tail+size {
		return nil
	}
	at := s.unparsedBegin % size
	to := min(size, at+tail+size-s.unparsedBegin)
	return s.mem[at+s.unparsedEnd-s.unparsedBegin : to]
}

// moveUnparsed moves the unparsed bytes to the ring's beginning.
func (s *fragmentStore) moveUnparsed() {
	size := uint64(len(s.mem))
	begin := s.unparsedBegin - s.unparsedBegin%size + size
	n := copy(s.mem, s.unparsedBytes())
	s.unparsedBegin, s.unparsedEnd = begin, begin+uint64(n)
}

// commitRead says that n bytes were read into the space.
func (s *fragmentStore) commitRead(n int) { s.unparsedEnd += uint64(n) }

// skip passes over n unparsed bytes.
func (s *fragmentStore) skip(n int) { s.unparsedBegin += uint64(n) }

// freeEntries returns how many fragments can be queued.
func (s *fragmentStore) freeEntries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring) - int(s.last-s.first) - s.unpublished
}

// enqueue queues a fragment whose frame is the next n unparsed bytes. An entry must be free. The consumer sees the
// fragment after publish.
func (s *fragmentStore) enqueue(f live.Fragment, n int) {
	s.unparsedBegin += uint64(n)
	s.ring[(s.last+uint64(s.unpublished))%uint64(len(s.ring))] = queuedFragment{f, s.unparsedBegin}
	s.unpublished++
}

// publish shows the queued fragments to the consumer.
func (s *fragmentStore) publish() {
	if s.unpublished == 0 {
		return
	}
	s.mu.Lock()
	s.last += uint64(s.unpublished)
	s.mu.Unlock()
	s.unpublished = 0
	wake(s.fragmentsQueued)
}

// discardUnparsed throws away the unparsed bytes, since their connection is gone.
func (s *fragmentStore) discardUnparsed() { s.unparsedEnd = s.unparsedBegin }

// handOut hands out queued fragments, at most len(dst).
func (s *fragmentStore) handOut(dst []live.Fragment) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(dst), int(s.last-s.handedOut))
	for i := range n {
		dst[i] = s.ring[(s.handedOut+uint64(i))%uint64(len(s.ring))].Fragment
	}
	s.handedOut += uint64(n)
	return n
}

// hasFragments says that fragments are queued, or handed out and not freed.
func (s *fragmentStore) hasFragments() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first < s.last
}

// eventNumbers returns the events of the fragments that are queued, or handed out and not freed, in order.
func (s *fragmentStore) eventNumbers() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]uint64, 0, s.last-s.first)
	for i := s.first; i < s.last; i++ {
		out = append(out, s.ring[i%uint64(len(s.ring))].Event)
	}
	return out
}

// freeFragments gives the memory of the next n fragments that were handed out back to the reader.
func (s *fragmentStore) freeFragments(n int) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	n = min(n, int(s.handedOut-s.first))
	if n > 0 {
		s.first += uint64(n)
		s.freeBelow = s.ring[(s.first-1)%uint64(len(s.ring))].end
	}
	s.mu.Unlock()
	wake(s.memoryFreed)
}
