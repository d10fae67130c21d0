package frames

import (
	"sync"

	"ringlet/source/live"
)

// The path of a fragment:
//
//  1. reader (one goroutine, of the session that is attached): readSpace gives a piece of the ring of memory, the
//     connection is read into it, and commitRead tells how much came.
//  2. reader: window gives what was received and not parsed; enqueue queues a fragment that lies there, skip passes
//     over what is not handed out. Nothing is copied, but for the frame that the ring's end cuts in two.
//  3. consumer (the goroutine that calls Next): frameHandOut hands out queued fragments, and freeFragments lets the
//     reader have their memory again.
//
// Memory between tail and begin belongs to the consumer, from begin to end to the reader, and the rest is free. Both
// sides allocate nothing.

const (
	// storeSize is how many bytes a feed takes in before any is handed out: at 10 Gbit/s those of 13 ms, which is more
	// than a readout unit waits for a buffer in a run that keeps up.
	storeSize = 16 << 20
	// maxQueuedFragments is how many fragments it holds: as many as fill it if they have 256 bytes each.
	maxQueuedFragments = 1 << 16
	// maxReadBytes is how many bytes are read at once, so that the first of them are handed out soon.
	maxReadBytes = 1 << 18
)

// queuedFragment is a fragment in the store.
type queuedFragment struct {
	live.Fragment
	end uint64 // position behind it
}

// fragmentStore is a ring of memory with one reader and one consumer. Positions count bytes since it was made; a
// position is in the memory at its remainder by the size.
type fragmentStore struct {
	mem             []byte        // immutable
	fragmentsQueued chan struct{} // the consumer waits here; one token
	memoryFreed     chan struct{} // the reader waits here; one token

	unparsedBegin, unparsedEnd uint64 // owned by the reader: received and not yet parsed
	unpublished                int    // owned by the reader: entries behind last that are not yet published

	mu sync.Mutex
	// entries first to last are the consumer's, and those behind the reader's, up to first again
	ring      []queuedFragment
	first     uint64 // handed out, and not yet free
	handedOut uint64 // queued, and not yet handed out
	last      uint64
	freeBelow uint64 // everything before it is free
}

// newStore makes a store of size bytes and of a number of fragments.
func newStore(size, fragments int) *fragmentStore {
	return &fragmentStore{
		mem:             make([]byte, size),
		fragmentsQueued: make(chan struct{}, 1),
		memoryFreed:     make(chan struct{}, 1),
		ring:            make([]queuedFragment, fragments),
	}
}

// wake leaves a token for whoever waits, or will.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// unparsedBytes is what was received and is not parsed. Fragments stay where they are in it.
func (s *fragmentStore) unparsedBytes() []byte {
	at := s.unparsedBegin % uint64(len(s.mem))
	return s.mem[at : at+s.unparsedEnd-s.unparsedBegin]
}

// readSpace is memory to read into, so that at least need bytes from the window's beginning on can be there: empty if
// the consumer must free some first. It may move the window.
func (s *fragmentStore) readSpace(need int) []byte {
	s.mu.Lock()
	if s.first == s.last && s.unpublished == 0 {
		s.freeBelow = s.unparsedBegin
	}
	tail := s.freeBelow
	s.mu.Unlock()
	size := uint64(len(s.mem))
	if at := s.unparsedBegin % size; at+uint64(need) > size {
		begin := s.unparsedBegin - at + size
		if begin+uint64(need) > tail+size {
			return nil
		}
		n := copy(s.mem, s.unparsedBytes())
		s.unparsedBegin, s.unparsedEnd = begin, begin+uint64(n)
	}
	if s.unparsedBegin+uint64(need) > tail+size {
		return nil
	}
	at := s.unparsedBegin % size
	to := min(size, at+tail+size-s.unparsedBegin)
	return s.mem[at+s.unparsedEnd-s.unparsedBegin : to]
}

// commitRead tells that n bytes were read into the space.
func (s *fragmentStore) commitRead(n int) { s.unparsedEnd += uint64(n) }

// skip passes over n bytes of the window.
func (s *fragmentStore) skip(n int) { s.unparsedBegin += uint64(n) }

// freeEntries says how many fragments can be queued.
func (s *fragmentStore) freeEntries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring) - int(s.last-s.first) - s.unpublished
}

// enqueue queues a fragment of which n bytes of the window are the frame. There must be room. The consumer sees it
// after publish.
func (s *fragmentStore) enqueue(f live.Fragment, n int) {
	s.unparsedBegin += uint64(n)
	s.ring[(s.last+uint64(s.unpublished))%uint64(len(s.ring))] = queuedFragment{f, s.unparsedBegin}
	s.unpublished++
}

// publish shows the consumer what was queued.
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

// discardUnparsed throws away what was received and is not parsed: the connection is gone.
func (s *fragmentStore) discardUnparsed() { s.unparsedEnd = s.unparsedBegin }

// frameHandOut hands out what is queued, at most len(dst) fragments.
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

// eventNumbers are those of the fragments that are queued, or handed out and not free, in their order.
func (s *fragmentStore) eventNumbers() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]uint64, 0, s.last-s.first)
	for i := s.first; i < s.last; i++ {
		out = append(out, s.ring[i%uint64(len(s.ring))].Event)
	}
	return out
}

// freeFragments lets the reader have the memory of the next n fragments that were handed out.
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
