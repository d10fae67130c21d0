package frames

import (
	"sync"

	"ringlet/readoutunit/source/live"
)

// The path of a fragment:
//
//  1. reader (one goroutine, of the session that is attached): readSpace gives a piece of the ring of memory, the
//     connection is read into it, and commitRead tells how much came.
//  2. reader: window gives what was received and not parsed; enqueue queues a fragment that lies there, skip passes
//     over what is not handed out. Nothing is copied, but for the frame that the ring's end cuts in two.
//  3. consumer (the goroutine that calls Next): handOut hands out queued fragments, and freeFragments lets the reader
//     have their memory again.
//
// Memory between tail and begin belongs to the consumer, from begin to end to the reader, and the rest is free. Both
// sides allocate nothing.

const (
	// storeSize is how many bytes a feed takes in before any is handed out: at 10 Gbit/s those of 13 ms, which is more
	// than a readout unit waits for a buffer in a run that keeps up.
	storeSize = 16 << 20
	// maxQueued is how many fragments it holds: as many as fill it if they have 256 bytes each.
	maxQueued = 1 << 16
	// maxRead is how many bytes are read at once, so that the first of them are handed out soon.
	maxRead = 1 << 18
)

// queued is a fragment in the store.
type queued struct {
	live.Fragment
	end uint64 // position behind it
}

// store is a ring of memory with one reader and one consumer. Positions count bytes since it was made; a position is in
// the memory at its remainder by the size.
type store struct {
	mem    []byte        // immutable
	filled chan struct{} // the consumer waits here; one token
	freed  chan struct{} // the reader waits here; one token

	begin, end uint64 // owned by the reader: received and not yet parsed
	batch      int    // owned by the reader: entries behind last that are not yet published

	mu        sync.Mutex
	ring      []queued // entries first to last are the consumer's, and those behind the reader's, up to first again
	first     uint64   // handed out, and not yet free
	handedOut uint64   // queued, and not yet handed out
	last      uint64
	tail      uint64 // everything before it is free
}

// newStore makes a store of size bytes and of a number of fragments.
func newStore(size, fragments int) *store {
	return &store{
		mem:    make([]byte, size),
		filled: make(chan struct{}, 1),
		freed:  make(chan struct{}, 1),
		ring:   make([]queued, fragments),
	}
}

// wake leaves a token for whoever waits, or will.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// window is what was received and is not parsed. Fragments stay where they are in it.
func (s *store) window() []byte {
	at := s.begin % uint64(len(s.mem))
	return s.mem[at : at+s.end-s.begin]
}

// readSpace is memory to read into, so that at least need bytes from the window's beginning on can be there: empty if
// the consumer must free some first. It may move the window.
func (s *store) readSpace(need int) []byte {
	s.mu.Lock()
	if s.first == s.last && s.batch == 0 {
		s.tail = s.begin
	}
	tail := s.tail
	s.mu.Unlock()
	size := uint64(len(s.mem))
	if at := s.begin % size; at+uint64(need) > size {
		begin := s.begin - at + size
		if begin+uint64(need) > tail+size {
			return nil
		}
		n := copy(s.mem, s.window())
		s.begin, s.end = begin, begin+uint64(n)
	}
	if s.begin+uint64(need) > tail+size {
		return nil
	}
	at := s.begin % size
	to := min(size, at+tail+size-s.begin)
	return s.mem[at+s.end-s.begin : to]
}

// commitRead tells that n bytes were read into the space.
func (s *store) commitRead(n int) { s.end += uint64(n) }

// skip passes over n bytes of the window.
func (s *store) skip(n int) { s.begin += uint64(n) }

// freeEntries says how many fragments can be queued.
func (s *store) freeEntries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring) - int(s.last-s.first) - s.batch
}

// enqueue queues a fragment of which n bytes of the window are the frame. There must be room. The consumer sees it
// after publish.
func (s *store) enqueue(f live.Fragment, n int) {
	s.begin += uint64(n)
	s.ring[(s.last+uint64(s.batch))%uint64(len(s.ring))] = queued{f, s.begin}
	s.batch++
}

// publish shows the consumer what was queued.
func (s *store) publish() {
	if s.batch == 0 {
		return
	}
	s.mu.Lock()
	s.last += uint64(s.batch)
	s.mu.Unlock()
	s.batch = 0
	wake(s.filled)
}

// discardUnparsed throws away what was received and is not parsed: the connection is gone.
func (s *store) discardUnparsed() { s.end = s.begin }

// handOut hands out what is queued, at most len(dst) fragments.
func (s *store) handOut(dst []live.Fragment) int {
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
func (s *store) eventNumbers() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]uint64, 0, s.last-s.first)
	for i := s.first; i < s.last; i++ {
		out = append(out, s.ring[i%uint64(len(s.ring))].Event)
	}
	return out
}

// freeFragments lets the reader have the memory of the next n fragments that were handed out.
func (s *store) freeFragments(n int) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	n = min(n, int(s.handedOut-s.first))
	if n > 0 {
		s.first += uint64(n)
		s.tail = s.ring[(s.first-1)%uint64(len(s.ring))].end
	}
	s.mu.Unlock()
	wake(s.freed)
}
