package readoutunit

import (
	"fmt"
	"math"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet"
	"ringlet/transport/link"
)

// QuotaSchedule is the pure core of a readout unit whose parts are placed by quota: which window each slot of each builder unit has,
// which tokens travel together, and which MEPs are still needed. It does no I/O and takes no locks; its owner calls it under one,
// but for Add, which touches only what the one who adds has opened.
//
//	Standing ─► windows ─┐
//	Cycles, Add ─────────┴─► Burst of one builder unit ─► (write) ─► Complete ─► Free: what is below is needed no more
type QuotaSchedule struct {
	// immutable after NewQuotaSchedule
	ru, phases, width, slots int // width: places of a cycle, the number of builder units

	// The windows are written before Granted is true, and never after.
	refs    [][]shmem.Ref // by builder unit and slot
	missing []int         // windows, by builder unit

	next     uint64   // cycle to come
	bursts   []*Burst // all there are
	free     []*Burst // those of no builder unit, the last used on top: its memory is in the cache
	limit    int      // most bursts there may be
	open     int      // tokens whose outcome is not known
	released uint64   // every MEP below has its outcome

	left left // what became of builder units that were excluded or lost
}

// A Burst is the tokens of one builder unit that travel together. Who opened it owns it until it is sent; then it is the network's, until it is
// complete.
type Burst struct {
	BU     int
	Pieces []link.Piece // parts that fit a piece
	Large  []link.Write // the others
	Bytes  uint64       // in all parts

	id      int
	low     uint64 // lowest MEP that was added
	needs   uint64 // MEPs from here on must stay
	pending int    // writes without an outcome; 0 in one that is not sent
	inUse   bool
	left    bool // its builder unit has been excluded since it was sent
}

// maxBurst is the most tokens of a burst: 512 parts of 200 bytes are 11 jumbo datagrams or 70 of an Ethernet, enough to fill a GSO
// buffer of 64 KiB, and little beside the slots of a builder unit (a choice, 2026-11-21).
const maxBurst = 512

// burstsPerBU bounds how far a readout unit writes ahead of the responses. With 512 tokens each, eight cover the slots that
// node/config gives a builder unit.
const burstsPerBU = 8

// NewQuotaSchedule makes the core of readout unit ru of rus, for bus builder units with the given number of slots each.
func NewQuotaSchedule(ru, rus, bus, slots int) *QuotaSchedule {
	s := &QuotaSchedule{
		ru: ru, phases: Phases(rus, bus), width: bus, slots: slots, refs: make([][]shmem.Ref, bus), missing: make([]int, bus),
		limit: bus*burstsPerBU + 1, left: newLeft(bus),
	}
	for b := range s.refs {
		s.refs[b], s.missing[b] = make([]shmem.Ref, slots), slots
	}
	return s
}

// Standing takes windows of a builder unit. Said twice they must be the same. An error says what is wrong; it then had no effect.
func (s *QuotaSchedule) Standing(bu int, m *placing.Standing) error {
	if uint64(m.First)+uint64(len(m.Refs)) > uint64(s.slots) {
		return &TokenError{BU: bu, Slot: m.First, Reason: fmt.Sprintf("windows were granted in %d slots from there on, but there are %d slots",
			len(m.Refs), s.slots)}
	}
	have := s.refs[bu][m.First:][:len(m.Refs)]
	for i, ref := range m.Refs {
		switch r := shmem.Ref(ref); {
		case r == (shmem.Ref{}) || r.Gen == 0:
			return &TokenError{BU: bu, Slot: m.First + uint32(i), Reason: "a window was granted that cannot be"}
		case have[i] != (shmem.Ref{}) && have[i] != r:
			return &TokenError{BU: bu, Slot: m.First + uint32(i), Reason: "another window was granted than before"}
		}
	}
	for i, ref := range m.Refs {
		if have[i] == (shmem.Ref{}) {
			s.missing[bu]--
		}
		have[i] = shmem.Ref(ref)
	}
	return nil
}

// Granted reports whether every builder unit has given its windows, but those that are excluded.
func (s *QuotaSchedule) Granted() bool {
	for bu, n := range s.missing {
		if n > 0 && s.left.valid[bu] == 0 {
			return false
		}
	}
	return true
}

// Cycles takes the next cycles. A *CycleError says what is wrong with them; they then had no effect.
func (s *QuotaSchedule) Cycles(b *tagnet.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	if b.First != s.next || b.Places != s.width {
		return &CycleError{Cycle: b.First, Want: s.next, Places: b.Places, Width: s.width}
	}
	s.next += uint64(b.Len())
	return nil
}

// Open gives an empty burst for a builder unit, or nil if so many are under way that one must complete first. From is the lowest MEP
// that is held: as long as the burst is open nothing from there on is given up.
func (s *QuotaSchedule) Open(bu int, from uint64) *Burst {
	var b *Burst
	switch n := len(s.free); {
	case n > 0:
		b = s.free[n-1]
		s.free = s.free[:n-1]
	case len(s.bursts) < s.limit:
		b = &Burst{id: len(s.bursts)}
		s.bursts = append(s.bursts, b)
	default:
		return nil
	}
	b.BU, b.low, b.needs, b.inUse, b.left, b.pending, b.Bytes = bu, math.MaxUint64, from, true, false, 0, 0
	b.Pieces, b.Large = b.Pieces[:0], b.Large[:0]
	return b
}

// Tokens is the number of tokens in the burst.
func (b *Burst) Tokens() int { return len(b.Pieces) + len(b.Large) }

// Add puts the part for one token, whose slot and attempt are packed in word as in a tagnet.Batch, into a burst. A *TokenError says that
// there is no such slot. It reports true when the burst is full.
func (s *QuotaSchedule) Add(b *Burst, mep uint64, word uint32, part []byte) (bool, error) {
	slot := word & (tagnet.MaxSlots - 1)
	refs := s.refs[b.BU]
	if int(slot) >= len(refs) {
		return false, &TokenError{b.BU, slot, mep, fmt.Sprintf("there are %d slots", s.slots)}
	}
	imm := mep<<32 | uint64(word) // placing.Immediate of a word that is packed already
	if len(part) <= link.MaxPiece {
		b.Pieces = append(b.Pieces, link.Piece{Ref: refs[slot], Imm: imm, Data: part})
	} else {
		b.Large = append(b.Large, link.Write{Ref: refs[slot], Imm: imm, Data: part, Cookie: uint64(b.id)})
	}
	b.Bytes += uint64(len(part))
	b.low = min(b.low, mep)
	return len(b.Pieces)+len(b.Large) >= maxBurst, nil
}

// Send notes that an open burst, in which there is something, is about to be written, and returns the cookie that its writes must have.
func (s *QuotaSchedule) Send(b *Burst) uint64 {
	b.needs = b.low
	b.pending = len(b.Large)
	if len(b.Pieces) > 0 {
		b.pending++
	}
	s.open += b.Tokens()
	return uint64(b.id)
}

// Complete takes the outcome of a write. It returns the burst when that was its last, or nil; what is in the burst stays readable
// until the next Open. It refuses one that was not under way.
func (s *QuotaSchedule) Complete(cookie uint64) (*Burst, error) {
	if cookie >= uint64(len(s.bursts)) || s.bursts[cookie].pending == 0 {
		return nil, fmt.Errorf("a write ended that was not under way: number %d", cookie)
	}
	b := s.bursts[cookie]
	if b.pending--; b.pending > 0 {
		return nil, nil
	}
	s.end(b)
	return b, nil
}

// end makes a burst that was sent free.
func (s *QuotaSchedule) end(b *Burst) {
	if b.left {
		s.left.writes[b.BU]--
	}
	s.open -= b.Tokens()
	b.pending, b.inUse = 0, false
	s.free = append(s.free, b)
}

// Discard gives up an open burst, whose tokens are withdrawn.
func (s *QuotaSchedule) Discard(b *Burst) {
	s.left.tokens += uint64(b.Tokens())
	b.inUse = false
	s.free = append(s.free, b)
}

// Withdraw takes the exclusion of a builder unit. Bursts for it that are open are their owner's to Discard.
func (s *QuotaSchedule) Withdraw(w tagnet.Withdrawal) {
	s.left.exclude(w)
	for _, b := range s.bursts {
		if b.BU == int(w.BU) && b.pending > 0 && !b.left {
			b.left = true
			s.left.writes[b.BU]++
		}
	}
}

// Lose takes that the link to a builder unit is down: what was sent to it will have no outcome any more, and all tokens for it are withdrawn.
func (s *QuotaSchedule) Lose(bu int) {
	if s.left.lost[bu] {
		return
	}
	s.left.valid[bu], s.left.lost[bu] = forever, true
	for _, b := range s.bursts {
		if b.BU == bu && b.pending > 0 {
			s.left.tokens += uint64(b.Tokens())
			s.left.failed += uint64(b.Tokens())
			s.end(b)
		}
	}
}

// Void gives the cycles before which tokens are withdrawn, by builder unit, or nil if none are. It is valid until the next exclusion.
func (s *QuotaSchedule) Void() []uint64 {
	for _, before := range s.left.valid {
		if before > 0 {
			return s.left.valid
		}
	}
	return nil
}

// Pass counts tokens that are withdrawn.
func (s *QuotaSchedule) Pass(tokens uint64) { s.left.tokens += tokens }

// Lost tells whether the link to a builder unit is down.
func (s *QuotaSchedule) Lost(bu int) bool { return s.left.lost[bu] }

// Settled gives the next exclusion of which nothing is under way any more, each once.
func (s *QuotaSchedule) Settled() (Exclusion, bool) { return s.left.settled() }

// Leftovers counts what became of withdrawn tokens.
func (s *QuotaSchedule) Leftovers() Leftovers { return s.left.counts() }

// LeftWrites is the number of writes under way that nobody waits for; they are busy bursts, too.
func (s *QuotaSchedule) LeftWrites() int { return 0 }

// Release says that every MEP below the given one has its outcome.
func (s *QuotaSchedule) Release(below uint64) { s.released = max(s.released, below) }

// Needed is the lowest MEP that is still needed: it has no outcome yet, or the link may still send it again, since the response
// of a write may come after the outcome of the MEP. It looks at every burst: some ten, each of hundreds of tokens.
func (s *QuotaSchedule) Needed() uint64 {
	lowest := uint64(math.MaxUint64)
	for _, b := range s.bursts {
		if b.inUse {
			lowest = min(lowest, b.needs)
		}
	}
	return min(lowest, s.released)
}

// Transfers is the number of tokens under way.
func (s *QuotaSchedule) Transfers() int { return s.open }

// Busy reports whether a burst is under way.
func (s *QuotaSchedule) Busy() bool { return len(s.free) < len(s.bursts) }
