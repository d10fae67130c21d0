package readoutunit

import (
	"fmt"

	"ringlet/internal/placing"
	"ringlet/shmem"
	"ringlet/tagnet"
)

// Schedule is the pure core of a readout unit: which token comes in which phase, and how far each has got. It does no I/O and
// takes no locks; its owner calls it under one.
//
// The discipline is LHCb's linear shift (seed 002, L4): a cycle of M places takes P = max(N, M) phases, and in phase p readout
// unit i of N sends to place (i+p) mod P. No place has two senders in a phase, since i ↦ (i+p) mod P is injective for i < P.
// Places from M on, and empty ones, are dummies: the unit is silent, and keeps phase.
type Schedule struct {
	// immutable after NewSchedule
	ru, phases, width int // width: places of a cycle, the number of builder units

	// The places of the cycles that have come and are not over, one behind the other. They are known by their number since
	// the start of the run; the first kept has number base.
	places []Transfer
	base   uint64
	over   int    // leading places known to be empty or done
	first  uint64 // first place of the current cycle
	phase  int    // of the current cycle
	next   uint64 // cycle to come

	latest [][]uint64 // by builder unit and slot: 1 + number of the place with its latest token; 0 for none
}

// Transfer is one token's way through a readout unit.
type Transfer struct {
	tagnet.Token
	Stage Stage
	Ref   shmem.Ref // the window granted, once Granted
	Size  uint32    // bytes granted
}

// Stage of a transfer.
type Stage uint8

// Stages of a transfer.
const (
	Empty     Stage = iota // no token at this place
	Announced              // the sizes are on their way
	Granted                // the builder unit has given a window
	Sent                   // the write is queued
	Done                   // the write has its outcome
)

func (s Stage) String() string {
	return [...]string{"empty", "announced", "granted", "sent", "done"}[s]
}

// NewSchedule makes the core of readout unit ru of rus, for bus builder units with the given number of slots each.
func NewSchedule(ru, rus, bus, slots int) *Schedule {
	s := &Schedule{ru: ru, phases: Phases(rus, bus), width: bus, latest: make([][]uint64, bus)}
	for b := range s.latest {
		s.latest[b] = make([]uint64, slots)
	}
	return s
}

// Phases is the number of phases of a cycle of bus places for rus readout units.
func Phases(rus, bus int) int { return max(rus, bus) }

// PlaceOf is where readout unit ru sends in a phase; a place that no builder unit has is a dummy.
func PlaceOf(ru, phase, phases int) int { return (ru + phase) % phases }

// A TokenError is a token or a grant that contradicts what is known.
type TokenError struct {
	BU     int
	Slot   uint32
	MEP    uint64
	Reason string
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("MEP %d, slot %d of builder unit %d: %s", e.MEP, e.Slot, e.BU, e.Reason)
}

// A CycleError is a cycle out of sequence, or of another width than the view's.
type CycleError struct {
	Cycle, Want   uint64 // numbers
	Places, Width int    // of the cycle, and of the view
}

func (e *CycleError) Error() string {
	return fmt.Sprintf("cycle %d of %d places came where cycle %d of %d follows", e.Cycle, e.Places, e.Want, e.Width)
}

// Cycle takes the next cycle of a batch. Its tokens are then to be announced. A *CycleError or *TokenError says what is wrong
// with it; it then had no effect.
func (s *Schedule) Cycle(b *tagnet.Batch, i int) error {
	if n := b.First + uint64(i); n != s.next || b.Places != s.width {
		return &CycleError{Cycle: n, Want: s.next, Places: b.Places, Width: s.width}
	}
	for p := range b.Places {
		if t, ok := b.Token(i, p); ok {
			if err := s.check(&t); err != nil {
				return err
			}
		}
	}
	s.next++
	s.compact()
	for p := range b.Places {
		t, ok := b.Token(i, p)
		if !ok {
			s.places = append(s.places, Transfer{})
			continue
		}
		s.places = append(s.places, Transfer{Token: t, Stage: Announced})
		s.latest[p][t.Slot] = s.base + uint64(len(s.places))
	}
	return nil
}

// check says what is wrong with a token.
func (s *Schedule) check(t *tagnet.Token) error {
	bu := int(t.BU)
	if int(t.Slot) >= len(s.latest[bu]) {
		return &TokenError{bu, t.Slot, t.MEP, fmt.Sprintf("there are %d slots", len(s.latest[bu]))}
	}
	// The slot may be free at the builder unit before our write's response is here, but not before the write was sent.
	if x := s.in(bu, t.Slot); x != nil && x.Stage < Sent {
		return &TokenError{bu, t.Slot, t.MEP, fmt.Sprintf("MEP %d is still %s there", x.MEP, x.Stage)}
	}
	return nil
}

// in is the latest transfer into a slot, or nil.
func (s *Schedule) in(bu int, slot uint32) *Transfer {
	if n := s.latest[bu][slot]; n > s.base {
		return s.At(n - 1)
	}
	return nil
}

// At is the transfer at a place that is kept: of a cycle that is not over, or one that is not done.
func (s *Schedule) At(n uint64) *Transfer { return &s.places[n-s.base] }

// compact forgets the oldest cycles that are over and done.
func (s *Schedule) compact() {
	n := s.over
	for n < int(s.first-s.base) && (s.places[n].Stage == Empty || s.places[n].Stage == Done) {
		n++
	}
	// Moving the rest only when it is the smaller half makes a move per place, in the mean.
	if 2*n >= len(s.places) {
		s.places = s.places[:copy(s.places, s.places[n:])]
		s.base += uint64(n)
		n = 0
	}
	s.over = n
}

// Ready reports whether there is a cycle to work on.
func (s *Schedule) Ready() bool { return s.first-s.base < uint64(len(s.places)) }

// Current is the number of the place of the current phase. It reports false if the phase is a dummy.
func (s *Schedule) Current() (uint64, bool) {
	p := PlaceOf(s.ru, s.phase, s.phases)
	n := s.first + uint64(p)
	return n, p < s.width && s.At(n).Stage != Empty
}

// Advance ends the current phase and, with the last, the cycle.
func (s *Schedule) Advance() {
	if s.phase++; s.phase == s.phases {
		s.phase = 0
		s.first += uint64(s.width)
	}
}

// Grant takes a builder unit's answer to an announcement.
func (s *Schedule) Grant(bu int, g *placing.Grant) error {
	if int(g.Slot) >= len(s.latest[bu]) {
		return &TokenError{bu, g.Slot, g.MEP, "a window was granted in a slot that does not exist"}
	}
	t := s.in(bu, g.Slot)
	if t == nil || t.Stage != Announced || t.MEP != g.MEP || uint32(t.Attempt) != g.Attempt {
		return &TokenError{bu, g.Slot, g.MEP, "a window was granted that was not asked for, or twice"}
	}
	t.Stage, t.Ref, t.Size = Granted, shmem.Ref{Window: g.Window, Gen: g.Gen}, g.Length
	return nil
}

// Complete takes the outcome of the write at a place, and returns the transfer. It refuses one that was not sent, or is done.
func (s *Schedule) Complete(n uint64) (Transfer, error) {
	if n < s.base || n-s.base >= uint64(len(s.places)) || s.At(n).Stage != Sent {
		return Transfer{}, fmt.Errorf("a write ended that was not under way: number %d", n)
	}
	t := s.At(n)
	t.Stage = Done
	return *t, nil
}

// Open is the number of transfers that are not done.
func (s *Schedule) Open() int {
	n := 0
	for i := range s.places {
		if st := s.places[i].Stage; st != Empty && st != Done {
			n++
		}
	}
	return n
}
