package source

import (
	"ringlet/event"
	"ringlet/internal/hugepages"
)

// fragmentStage holds fragments of one live source between its feed and a block: a ring buffer of bytes, and a ring of
// entries that describe the fragments in it. Fragments enter in the order in which they came and are freed in any
// order.
//
//	mem     ──┤tail ─── bytes of fragments ───┤head ──   positions grow until the stage is empty; that of a byte is its
//	                                                     index mod len(mem)
//	entries ──┤first ──────────────────────── ┤last ──
//
// The goroutine that reserved a fragment writes its bytes; the caller's lock guards everything else.
type fragmentStage struct {
	mem         []byte
	head, tail  uint64
	entries     []stageEntry
	first, last uint64
}

type stageEntry struct {
	start, end uint64
	freed      bool
	words      event.Words
}

// newStage returns a stage with room for the given bytes, and for entries fragments; entries must be a power of two.
func newStage(bytes, entries int) fragmentStage {
	return fragmentStage{mem: hugepages.Advise(make([]byte, bytes)), entries: make([]stageEntry, entries)}
}

func (s *fragmentStage) entry(ref uint64) *stageEntry {
	return &s.entries[ref&uint64(len(s.entries)-1)]
}

// reserve reserves the bytes of a fragment. False: there is no room now.
func (s *fragmentStage) reserve(size int) (ref uint64, space []byte, ok bool) {
	at, length := s.head, uint64(len(s.mem))
	if off := at % length; off+uint64(size) > length {
		at += length - off
	}
	if at+uint64(size)-s.tail > length || s.last-s.first == uint64(len(s.entries)) {
		return 0, nil, false
	}
	ref = s.last
	*s.entry(ref) = stageEntry{start: at, end: at + uint64(size)}
	s.last++
	s.head = at + uint64(size)
	return ref, s.bytes(ref), true
}

// bytes returns the bytes of a fragment.
func (s *fragmentStage) bytes(ref uint64) []byte {
	e := s.entry(ref)
	off := e.start % uint64(len(s.mem))
	return s.mem[off : off+e.end-e.start]
}

// fill is how much of the stage is in use: of its bytes, or of its entries if more of these are.
func (s *fragmentStage) fill() (used, size uint64) {
	used, size = s.head-s.tail, uint64(len(s.mem))
	if n, all := s.last-s.first, uint64(len(s.entries)); n*size > used*all {
		return n, all
	}
	return used, size
}

// setWords keeps the words of a fragment, and words returns them.
func (s *fragmentStage) setWords(ref uint64, w event.Words) { s.entry(ref).words = w }

func (s *fragmentStage) words(ref uint64) event.Words { return s.entry(ref).words }

// free frees a fragment. The stage reuses its bytes once all fragments that entered before are free, too.
func (s *fragmentStage) free(ref uint64) {
	s.entry(ref).freed = true
	for s.first < s.last && s.entry(s.first).freed {
		s.tail = s.entry(s.first).end
		s.first++
	}
	if s.first == s.last {
		s.head, s.tail = 0, 0 // memory that was written before is in the page table, and may be in a cache
	}
}
