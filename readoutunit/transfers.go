package readoutunit

import (
	"fmt"
	"math"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet"
)

// Transfers is what every discipline stands on: the tokens that have come to a readout unit, and how far each has got.
// It does no I/O and takes no locks; its owner calls it under one.
type Transfers struct {
	placesPerCycle int // places of a cycle, the number of builder units; immutable
	// grantsOnRequest: a builder unit grants what it wants, and may want nothing of a MEP that is announced to it.
	// Immutable.
	grantsOnRequest bool

	// The places of the cycles that have come and are not over, one behind the other. They are known by their number since
	// the start of the run; the first kept has number base.
	places     []Transfer
	firstPlace uint64
	finished   int    // leading places known to be empty or done
	firstMEP   uint64 // the unit has no MEP below
	nextCycle  uint64 // cycle to come
	openCount  int    // transfers that are not done

	oldestUnrequested uint64 // number of the oldest place whose transfer may be announced, and never asked for
	unrequested       uint64 // transfers that the builder unit never asked for

	latestPlaces [][]uint64 // by builder unit and slot: 1 + number of the place with its latest token; 0 for none

	// preGranted are the windows that were granted once for all, by builder unit and slot. A token whose slot has one
	// needs no announcement. Nil: windows are granted for each MEP.
	preGranted [][]shmem.Ref
	sentCount  int // transfers whose write is under way, and waited for

	withdrawals withdrawals // what became of builder units that were excluded or lost
}

// Transfer is one token's way through a readout unit.
type Transfer struct {
	tagnet.Token
	Stage        Stage
	Ref          shmem.Ref // the window granted, once stageGranted
	GrantedBytes uint32    // bytes granted
}

// Stage of a transfer.
type Stage uint8

// Stages of a transfer.
const (
	stageEmpty     Stage = iota // no token at this place
	stageAnnounced              // the sizes are on their way
	stageGranted                // the builder unit has given a window
	stageSent                   // the write is queued
	stageOrphaned               // the write is queued, and nobody waits for it: its builder unit is excluded
	stageDone                   // the write has its outcome, or is not wanted
)

func (s Stage) String() string {
	return [...]string{"empty", "announced", "granted", "sent", "left", "done"}[s]
}

func newTransfers(bus, slots int) Transfers {
	t := Transfers{placesPerCycle: bus, latestPlaces: make([][]uint64, bus), withdrawals: newWithdrawals(bus)}
	for b := range t.latestPlaces {
		t.latestPlaces[b] = make([]uint64, slots)
	}
	return t
}

// A tokenError is a token or a grant that contradicts what is known.
type tokenError struct {
	BU     int
	Slot   uint32
	MEP    uint64
	Reason string
}

func newTokenError(bu int, slot uint32, mep uint64, reason string) error {
	return &tokenError{
		BU:     bu,
		Slot:   slot,
		MEP:    mep,
		Reason: reason,
	}
}

func (e *tokenError) Error() string {
	return fmt.Sprintf("MEP %d, slot %d of builder unit %d: %s", e.MEP, e.Slot, e.BU, e.Reason)
}

// A cycleError is a cycle out of sequence, or of another width than the view's.
type cycleError struct {
	Cycle, Want   uint64 // numbers
	Places, Width int    // of the cycle, and of the view
}

func (e *cycleError) Error() string {
	return fmt.Sprintf("cycle %d of %d places came where cycle %d of %d follows", e.Cycle, e.Places, e.Want, e.Width)
}

// addCycle takes the next cycle of a batch. Its tokens are then to be announced. A *cycleError or *tokenError says what
// is wrong with it; it then had no effect. Places below keep are those of which nobody wants to know whether they are
// empty or done.
func (s *Transfers) addCycle(b *tagnet.Batch, i int, keepFrom uint64) error {
	if n := b.FirstCycle + uint64(i); n != s.nextCycle || b.PlacesPerCycle != s.placesPerCycle {
		return &cycleError{
			Cycle:  n,
			Want:   s.nextCycle,
			Places: b.PlacesPerCycle,
			Width:  s.placesPerCycle,
		}
	}
	from := i * b.PlacesPerCycle
	for p, mep := range b.MEPs[from : from+b.PlacesPerCycle] {
		if slot := b.Slots[from+p] & (tagnet.MaxSlots - 1); mep != tagnet.NoMEP {
			if err := s.checkToken(p, slot, mep); err != nil {
				return err
			}
		}
	}
	s.nextCycle++
	s.deferOldest()
	s.compact(keepFrom)
	for p := range b.PlacesPerCycle {
		var t *Transfer
		s.places, t = extend(s.places)
		token, ok := b.Token(i, p)
		if !ok || token.MEP < s.firstMEP {
			*t = Transfer{} // nothing is to be sent
			continue
		}
		t.MEP, t.Slot, t.BU, t.Attempt = token.MEP, token.Slot, token.BU, token.Attempt
		if s.grantsOnRequest {
			if x := s.latestIn(p, token.Slot); x != nil && x.Stage == stageAnnounced {
				s.endUnrequested(x) // check has let it pass
			}
		}
		s.startTransfer(t)
		s.latestPlaces[p][token.Slot] = s.nextPlace()
		if s.IsWithdrawn(s.nextCycle-1, p) {
			s.withdrawTransfer(t)
		}
	}
	return nil
}

// BeginAt implements Order.
func (s *Transfers) BeginAt(cycle, mep uint64) {
	s.nextCycle, s.firstPlace, s.firstMEP = cycle, cycle*uint64(s.placesPerCycle), mep
}

// startTransfer begins the transfer of a token that has just come.
func (s *Transfers) startTransfer(t *Transfer) {
	t.Stage, t.Ref, t.GrantedBytes = stageAnnounced, shmem.Ref{}, 0
	if s.preGranted != nil {
		if t.Ref = s.preGranted[t.BU][t.Slot]; t.Ref != (shmem.Ref{}) {
			t.Stage = stageGranted
		}
	}
	s.openCount++
}

// checkToken says what is wrong with a token.
func (s *Transfers) checkToken(bu int, slot uint32, mep uint64) error {
	if int(slot) >= len(s.latestPlaces[bu]) {
		return newTokenError(bu, slot, mep, fmt.Sprintf("there are %d slots", len(s.latestPlaces[bu])))
	}
	// The slot may be free at the builder unit before our write's response is here, but not before the write was sent.
	// What was only announced for it, the builder unit did not ask for: the scheduler has its outcome all the same.
	if x := s.latestIn(bu, slot); x != nil && x.Stage < stageSent && !(s.grantsOnRequest && x.Stage == stageAnnounced) {
		return newTokenError(bu, slot, mep, fmt.Sprintf("MEP %d is still %s there", x.MEP, x.Stage))
	}
	return nil
}

// Release says that every MEP below has its outcome. Where builder units ask for what they want, those of the oldest
// transfers which they did not ask for are over by that. A place is looked at once, but for the one where it stops.
func (s *Transfers) Release(below uint64) {
	if !s.grantsOnRequest {
		return
	}
	for s.oldestUnrequested = max(s.oldestUnrequested,
		s.firstPlace); s.oldestUnrequested < s.nextPlace(); s.oldestUnrequested++ {
		switch t := s.TransferAt(s.oldestUnrequested); {
		case t.Stage == stageAnnounced && t.MEP < below:
			s.endUnrequested(t)
		case t.Stage == stageAnnounced || t.Stage == stageGranted:
			return // what is behind it is newer, or waits for its turn
		}
	}
}

// Reject takes that a MEP was rejected by the builder unit that had its token, for a slot, and says whether that asks
// for this unit's part no more: the part was never asked for, which ends its transfer; or, with written, it was
// written, and its write has its outcome.
func (s *Transfers) Reject(bu int, slot uint32, mep uint64, written bool) bool {
	if !s.grantsOnRequest || bu >= len(s.latestPlaces) || int(slot) >= len(s.latestPlaces[bu]) {
		return false
	}
	t := s.latestIn(bu, slot)
	switch {
	case t == nil: // it is done, and its place was given up
		return written
	case t.MEP != mep:
		return true // a later token has the slot, so the scheduler has the outcome
	case t.Stage == stageAnnounced:
		s.endUnrequested(t)
		return true
	}
	return t.Stage == stageDone && written
}

// endUnrequested ends a transfer that nobody asked for.
func (s *Transfers) endUnrequested(t *Transfer) {
	t.Stage = stageDone
	s.openCount--
	s.unrequested++
}

// UnrequestedTransfers is the number of transfers that are over since their builder unit did not ask for them.
func (s *Transfers) UnrequestedTransfers() uint64 { return s.unrequested }

// latestIn is the latest transfer into a slot, or nil.
func (s *Transfers) latestIn(bu int, slot uint32) *Transfer {
	if n := s.latestPlaces[bu][slot]; n > s.firstPlace {
		return s.TransferAt(n - 1)
	}
	return nil
}

// TransferAt is the transfer at a place that is kept: of a cycle that is not over, or one that is not done.
func (s *Transfers) TransferAt(n uint64) *Transfer { return &s.places[n-s.firstPlace] }

// compact forgets the oldest places that are below keep, and empty or done.
func (s *Transfers) compact(keepFrom uint64) {
	n := s.finished
	for n < int(keepFrom-s.firstPlace) && (s.places[n].Stage == stageEmpty || s.places[n].Stage == stageDone) {
		n++
	}
	// Moving the rest only when it is the smaller half makes a move per place, in the mean.
	if 2*n >= len(s.places) {
		s.places = s.places[:copy(s.places, s.places[n:])]
		s.firstPlace += uint64(n)
		n = 0
	}
	s.finished = n
}

// deferOldest puts the oldest transfer behind all others if nobody has asked for it while so many came that it would
// keep their places for ever: its builder unit has stopped before it decided. A transfer that is only announced is
// known by its slot, so its number may change.
func (s *Transfers) deferOldest() {
	if !s.grantsOnRequest || s.finished == len(s.places) ||
		len(s.places) < maxPlacesPerSlot*s.placesPerCycle*len(s.latestPlaces[0]) {
		return
	}
	t := &s.places[s.finished]
	if t.Stage != stageAnnounced {
		return
	}
	s.latestPlaces[t.BU][t.Slot] = s.nextPlace() + 1
	s.places = append(s.places, *t)
	s.places[s.finished].Stage = stageEmpty
}

// maxPlacesPerSlot is how many times as many places as there are slots are kept before a transfer is set aside. One
// token in a cycle, the least there is, makes width places, so that this is passed only when something is far behind.
const maxPlacesPerSlot = 64

// nextPlace is the number of the place that comes next.
func (s *Transfers) nextPlace() uint64 { return s.firstPlace + uint64(len(s.places)) }

// applyGrant takes a builder unit's answer to an announcement, and returns the number of its place.
func (s *Transfers) applyGrant(bu int, g *placing.Grant) (uint64, error) {
	if int(g.Slot) >= len(s.latestPlaces[bu]) {
		return 0, newTokenError(bu, g.Slot, g.MEP, "a window was granted in a slot that does not exist")
	}
	t := s.latestIn(bu, g.Slot)
	if s.withdrawals.isLate(bu, t, g) {
		return noPlace, nil
	}
	if t == nil || t.Stage != stageAnnounced || t.MEP != g.MEP || uint32(t.Attempt) != g.Attempt {
		return 0, newTokenError(bu, g.Slot, g.MEP, "a window was granted that was not asked for, or twice")
	}
	t.Stage, t.Ref, t.GrantedBytes = stageGranted, shmem.Ref{Window: g.Window, Gen: g.Gen}, g.Length
	return s.latestPlaces[bu][g.Slot] - 1, nil
}

// EnablePreGranted says that every builder unit grants its windows once for all. It must be called before the first
// token comes.
func (s *Transfers) EnablePreGranted() {
	s.preGranted = make([][]shmem.Ref, s.placesPerCycle)
	for b := range s.preGranted {
		s.preGranted[b] = make([]shmem.Ref, len(s.latestPlaces[b]))
	}
}

// UsesPreGrants tells whether windows are granted once for all.
func (s *Transfers) UsesPreGrants() bool { return s.preGranted != nil }

// ApplyPreGrants takes windows of a builder unit that are granted once for all. Said twice they must be the same. An
// error says what is wrong; it then had no effect.
func (s *Transfers) ApplyPreGrants(bu int, m *placing.PreGrants) error {
	return s.applyPreGrants(bu, m, func(uint64) {})
}

// applyPreGrants is ApplyPreGrants, and calls each with the place of every transfer that has its window now.
func (s *Transfers) applyPreGrants(bu int, m *placing.PreGrants, each func(n uint64)) error {
	if s.preGranted == nil {
		return fmt.Errorf("builder unit %d granted windows for all MEPs, where they are granted for each", bu)
	}
	slots := len(s.preGranted[bu])
	if uint64(m.FirstSlot)+uint64(len(m.Refs)) > uint64(slots) {
		return &tokenError{BU: bu, Slot: m.FirstSlot, Reason: fmt.Sprintf(
			"windows were granted in %d slots from there on, but there are %d slots", len(m.Refs), slots)}
	}
	have := s.preGranted[bu][m.FirstSlot:][:len(m.Refs)]
	for i, ref := range m.Refs {
		switch r := shmem.Ref(ref); {
		case r.Gen == 0:
			return &tokenError{BU: bu, Slot: m.FirstSlot + uint32(i), Reason: "an empty window was granted"}
		case have[i] != (shmem.Ref{}) && have[i] != r:
			return &tokenError{BU: bu, Slot: m.FirstSlot + uint32(i), Reason: "another window was granted than before"}
		}
	}
	for i, ref := range m.Refs {
		have[i] = shmem.Ref(ref)
		if t := s.latestIn(bu, m.FirstSlot+uint32(i)); t != nil && t.Stage == stageAnnounced {
			t.Stage, t.Ref = stageGranted, have[i]
			each(s.latestPlaces[bu][m.FirstSlot+uint32(i)] - 1)
		}
	}
	return nil
}

// markSent notes that the write of a transfer is queued.
func (s *Transfers) markSent(n uint64) {
	s.TransferAt(n).Stage = stageSent
	s.sentCount++
}

// CyclesAhead is 0 where there are no phases.
func (s *Transfers) CyclesAhead() int { return 0 }

// BoundRound does nothing where there are no phases.
func (s *Transfers) BoundRound(uint64) {}

// RoundStart is 0 where there are no phases.
func (s *Transfers) RoundStart() uint64 { return 0 }

// SetLinkFull does nothing where a unit sends in the order of phases or tags: who sends waits for the link.
func (s *Transfers) SetLinkFull(int, bool) {}

// noPlace stands for the place of a grant that came too late to matter.
const noPlace = math.MaxUint64

// Complete takes the outcomes of the writes at places that Serve gave. It refuses one that was not sent, or is done.
func (s *Transfers) Complete(places []uint64) error {
	for _, n := range places {
		if n < s.firstPlace || n-s.firstPlace >= uint64(len(s.places)) {
			return &notUnderWayError{n}
		}
		switch t := s.TransferAt(n); t.Stage {
		case stageSent:
			t.Stage = stageDone
			s.openCount--
			s.sentCount--
		case stageOrphaned:
			t.Stage = stageDone
			s.withdrawals.orphanedWrites[t.BU]--
		default:
			return &notUnderWayError{n}
		}
	}
	return nil
}

// notUnderWayError is the outcome of a write that nobody made.
type notUnderWayError struct{ number uint64 }

func (e *notUnderWayError) Error() string {
	return fmt.Sprintf("a write ended that was not under way: number %d", e.number)
}

// OpenTransfers is the number of transfers that are not done.
func (s *Transfers) OpenTransfers() int { return s.openCount }
