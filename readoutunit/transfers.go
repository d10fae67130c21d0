package readoutunit

import (
	"fmt"
	"math"
	"slices"
	"time"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// Transfers is the table of the tokens that a readout unit has received, each with its state; from it an Order decides
// which part the unit sends when. It is a pure core: no I/O, no locks; its owner calls it under a lock.
//
//	AddCycle, ApplyGrant, Complete ─► Next ─► what the unit does now ─► Serve or AdvancePhase ─► Next …
type Transfers struct {
	// immutable after Discipline.Open, enablePreGranted and setMaxCycles
	order          Order
	visits         []int // of the order
	placesPerCycle int   // the number of builder units
	// grantsOnRequest: a grant is a builder unit's request, so some announced parts may never be requested.
	grantsOnRequest bool
	usesPreGrants   bool            // each window is granted once, for all MEPs; else for each MEP
	onWindowless    func(*Transfer) // called for every transfer that begins without a window; may be nil
	credits         *credits        // with push; else nil

	// The places of the cycles that have come and are not over, in order. Places are numbered from the start of the run;
	// the first one kept has the number firstPlace.
	places     []Transfer
	firstPlace uint64
	finished   int     // leading places known to be empty or done
	firstMEP   uint64  // the unit has no MEP below
	nextCycle  uint64  // number of the next cycle
	openCount  int     // transfers that are not done
	awaited    awaited // transfers whose write is under way, and whose outcome is awaited

	tokens      uint64 // tokens received
	tokensBelow uint64 // every MEP that has had a token is below

	oldestUnrequested uint64 // place of the oldest transfer that may be announced and never requested
	unrequested       uint64 // transfers that the builder unit never requested

	builders []builder // by index
	rounds   rounds

	unquiesced         []Exclusion // exclusions of which something is still under way
	exclusionsReceived uint64      // exclusions received
	WithdrawalStats
}

// builder is what a readout unit knows of a builder unit.
type builder struct {
	latestPlaces []uint64    // by slot: 1 + number of the place with its latest token; 0 for none
	preGranted   []shmem.Ref // by slot: the pre-granted windows
	linkFull     bool        // the link to it accepts no more writes
	sentCount    int         // transfers to it whose write is under way, and whose outcome is awaited
	still        bool        // it was passed over, and nothing has come from it since, or writes to it have no outcome
	answers      uint64      // grants and outcomes that came from it

	// Of a builder unit that was excluded, or whose link is down. A transfer with a withdrawn token that was not sent ends
	// at once. The outcome of one that was sent is not awaited, but its memory belongs to the network until the write has
	// its outcome or the link is down.

	validFromCycle uint64 // tokens of cycles before this one are withdrawn
	lost           bool   // its link is down
	orphanedWrites int    // writes under way whose outcome is not awaited
	exclusions     uint32 // exclusions of it received
}

// A window is memory that a part may be written to.
type window struct {
	Ref shmem.Ref
	// GrantedBytes is how many bytes the part must have. The entries do not count: the readout unit has announced them,
	// and does not write them. Or anyLength.
	GrantedBytes uint32
}

// anyLength is the length of a window that takes a part of any length, with its entries.
const anyLength = math.MaxUint32

// Transfer is one token's way through a readout unit.
type Transfer struct {
	core.Token
	window // set from stageGranted on
	Stage  Stage
}

// Stage of a transfer.
type Stage uint8

// Stages of a transfer.
const (
	stageEmpty     Stage = iota // no token at this place
	stageCredit                 // the token has come before its MEP was read
	stageAnnounced              // the token has come, but no window
	stageGranted                // the builder unit has granted a window
	stageSent                   // the write is queued
	stageOrphaned               // the write is queued, but its outcome is not awaited: the builder unit is excluded
	stageDone                   // the write has its outcome, or will not be made
)

func (s Stage) String() string {
	return [...]string{"empty", "credit", "announced", "granted", "sent", "left", "done"}[s]
}

func newTransfers(bus, slots int) *Transfers {
	t := &Transfers{placesPerCycle: bus, builders: make([]builder, bus), rounds: rounds{cycles: 1, maxCycles: 1}}
	for b := range t.builders {
		t.builders[b].latestPlaces, t.builders[b].preGranted = make([]uint64, slots), make([]shmem.Ref, slots)
	}
	return t
}

// A tokenError is a token or a grant that contradicts the table.
type tokenError struct {
	BU     int
	Slot   uint32
	MEP    uint64
	Reason string
}

func newTokenError(bu int, slot uint32, mep uint64, reason string) error {
	return &tokenError{BU: bu, Slot: slot, MEP: mep, Reason: reason}
}

func (e *tokenError) Error() string {
	return fmt.Sprintf("MEP %d, slot %d of builder unit %d: %s", e.MEP, e.Slot, e.BU, e.Reason)
}

// A cycleError is a cycle out of sequence, or with another number of places than the view has.
type cycleError struct {
	Cycle, Want   uint64 // numbers
	Places, Width int    // of the cycle, and of the view
}

func (e *cycleError) Error() string {
	return fmt.Sprintf("cycle %d of %d places came where cycle %d of %d follows", e.Cycle, e.Places, e.Want, e.Width)
}

// notUnderWayError is the outcome of a write that is not under way.
type notUnderWayError struct{ number uint64 }

func (e *notUnderWayError) Error() string {
	return fmt.Sprintf("a write ended that was not under way: number %d", e.number)
}

// beginAt sets the first cycle and the first MEP of a unit that rejoined in the run. It must be called before the first
// cycle comes.
func (s *Transfers) beginAt(cycle, mep uint64) {
	s.nextCycle, s.firstPlace, s.firstMEP = cycle, cycle*uint64(s.placesPerCycle), mep
	if s.credits != nil {
		s.credits.readBelow, s.credits.firstUnused = mep, s.firstPlace
	}
	s.rounds.start = s.firstPlace
}

// VisitOrder is the order in which the unit visits the builder units of a cycle, by index.
func (s *Transfers) VisitOrder() []int { return s.visits }

// AddCycle adds the next cycle, cycle i of a batch. A *cycleError or *tokenError says what is wrong with the cycle,
// which then had no effect. A *tagError contradicts a tag, and is found after the tokens were added. The unit cannot go
// on after any of them.
func (s *Transfers) AddCycle(b *core.Batch, i int) error {
	if n := b.FirstCycle + uint64(i); n != s.nextCycle || b.PlacesPerCycle != s.placesPerCycle {
		return &cycleError{Cycle: n, Want: s.nextCycle, Places: b.PlacesPerCycle, Width: s.placesPerCycle}
	}
	from := i * b.PlacesPerCycle
	for p, mep := range b.MEPs[from : from+b.PlacesPerCycle] {
		if slot := b.Slots[from+p] & (core.MaxSlots - 1); mep != core.NoMEP {
			if err := s.checkToken(p, slot, mep); err != nil {
				return err
			}
		}
	}
	s.deferOldest()
	s.compact(s.order.FirstNeeded())
	first, kept := s.nextPlace(), len(s.places)
	s.places = slices.Grow(s.places, s.placesPerCycle)[:kept+s.placesPerCycle]
	cycle := s.places[kept:]
	clear(cycle)
	tokens, below := s.tokens, s.tokensBelow
	for _, bu := range s.visits {
		if bu == Dummy || b.MEPs[from+bu] == core.NoMEP {
			continue
		}
		token, _ := b.Token(i, bu)
		tokens, below = tokens+1, max(below, token.MEP+1)
		if token.MEP >= s.firstMEP { // otherwise this unit has no part
			s.begin(&cycle[bu], &token, first+uint64(bu))
		}
	}
	s.tokens, s.tokensBelow = tokens, below
	s.nextCycle++
	if s.credits != nil {
		return s.credits.assign()
	}
	return s.order.Note(CycleCame, first)
}

// begin begins the transfer of a token at place n.
func (s *Transfers) begin(t *Transfer, token *core.Token, n uint64) {
	b := &s.builders[token.BU]
	if s.grantsOnRequest {
		if x := s.latestIn(int(token.BU), token.Slot); x != nil && x.Stage == stageAnnounced {
			s.endUnrequested(x) // checkToken has allowed this
		}
	}
	t.MEP, t.Slot, t.BU, t.Attempt = token.MEP, token.Slot, token.BU, token.Attempt
	t.Stage = stageCredit
	s.openCount++
	b.latestPlaces[token.Slot] = n + 1
	if s.nextCycle < b.validFromCycle {
		s.withdrawTransfer(t)
	}
	if s.credits == nil {
		use(s, t)
	}
}

// use has a transfer request its window, now that its token has come and its MEP is read.
func use(s *Transfers, t *Transfer) {
	if t.Stage != stageCredit {
		return
	}
	t.Stage = stageAnnounced
	if ref := s.builders[t.BU].preGranted[t.Slot]; ref.Gen != 0 {
		t.Stage, t.window = stageGranted, window{ref, anyLength}
	}
	if t.Stage == stageAnnounced && s.onWindowless != nil {
		s.onWindowless(t)
	}
}

// checkToken returns what is wrong with a token.
func (s *Transfers) checkToken(bu int, slot uint32, mep uint64) error {
	if slots := len(s.builders[bu].latestPlaces); int(slot) >= slots {
		return newTokenError(bu, slot, mep, fmt.Sprintf("there are %d slots", slots))
	}
	// The builder unit may free the slot before our write's response has come, but not before the write was sent. A
	// transfer that was only announced was never requested: the scheduler has its outcome all the same.
	if x := s.latestIn(bu, slot); x != nil && x.Stage < stageSent && !(s.grantsOnRequest && x.Stage == stageAnnounced) {
		return newTokenError(bu, slot, mep, fmt.Sprintf("MEP %d is still %s there", x.MEP, x.Stage))
	}
	return nil
}

// Release notes that every MEP below has its outcome. If builder units request what they want, it ends the oldest
// transfers below that were never requested. It looks at each place once, except at the one where it stops.
func (s *Transfers) Release(below uint64) {
	if !s.grantsOnRequest {
		return
	}
	n := max(s.oldestUnrequested, s.firstPlace)
	defer func() { s.oldestUnrequested = n }()
	for ; n < s.nextPlace(); n++ {
		switch t := s.TransferAt(n); {
		case t.Stage == stageAnnounced && t.MEP < below:
			s.endUnrequested(t)
		case t.Stage == stageAnnounced || t.Stage == stageGranted:
			return // later places are newer, or wait for their turn
		}
	}
}

// Reject notes that the builder unit with a MEP's token has rejected the MEP. It tells whether this readout unit's part
// is no longer needed: because the part was never requested, and then the transfer ends; or, if written is set, because
// the part was written and the write has its outcome.
func (s *Transfers) Reject(bu int, slot uint32, mep uint64, written bool) bool {
	if !s.grantsOnRequest || bu >= len(s.builders) || int(slot) >= len(s.builders[bu].latestPlaces) {
		return false
	}
	t := s.latestIn(bu, slot)
	switch {
	case t == nil: // the transfer is done, and its place was dropped
		return written
	case t.MEP != mep:
		return true // a later token has the slot, so the scheduler has the outcome
	case t.Stage == stageAnnounced:
		s.endUnrequested(t)
		return true
	}
	return t.Stage == stageDone && written
}

// endUnrequested ends a transfer that the builder unit never requested.
func (s *Transfers) endUnrequested(t *Transfer) {
	t.Stage = stageDone
	s.openCount--
	s.unrequested++
}

// UnrequestedTransfers is the number of transfers that ended because their builder unit did not request them.
func (s *Transfers) UnrequestedTransfers() uint64 { return s.unrequested }

// latestIn is the latest transfer into a slot, or nil.
func (s *Transfers) latestIn(bu int, slot uint32) *Transfer {
	if n := s.builders[bu].latestPlaces[slot]; n > s.firstPlace {
		return s.TransferAt(n - 1)
	}
	return nil
}

// TransferAt is the transfer at a place that is kept: in a cycle that is not over, or not done.
func (s *Transfers) TransferAt(n uint64) *Transfer { return &s.places[n-s.firstPlace] }

// isKept tells whether a place is kept: it has come, and was not dropped.
func (s *Transfers) isKept(n uint64) bool { return n >= s.firstPlace && n < s.nextPlace() }

// compact drops the oldest places that are below keepFrom, and empty or done.
func (s *Transfers) compact(keepFrom uint64) {
	n := s.finished
	for n < int(keepFrom-s.firstPlace) && (s.places[n].Stage == stageEmpty || s.places[n].Stage == stageDone) {
		n++
	}
	// Moving the rest only if it is the smaller half costs one move per place on average.
	if 2*n >= len(s.places) {
		s.places = s.places[:copy(s.places, s.places[n:])]
		s.firstPlace += uint64(n)
		n = 0
	}
	s.finished = n
}

// deferOldest moves the oldest transfer behind all others if it was not requested while very many places came: its
// builder unit has stopped before it decided, and the transfer would keep all places after it for ever. An announced
// transfer is found by its slot, so its place may change.
func (s *Transfers) deferOldest() {
	if !s.grantsOnRequest || s.finished == len(s.places) ||
		len(s.places) < maxPlacesPerSlot*s.placesPerCycle*len(s.builders[0].latestPlaces) {
		return
	}
	t := &s.places[s.finished]
	if t.Stage != stageAnnounced {
		return
	}
	s.builders[t.BU].latestPlaces[t.Slot] = s.nextPlace() + 1
	s.places = append(s.places, *t)
	s.places[s.finished].Stage = stageEmpty
}

// maxPlacesPerSlot is how many places are kept for each slot before deferOldest moves a transfer. A cycle takes
// placesPerCycle places, even if it has only one token, so there are many more places than slots. Only a transfer that
// is very far behind passes the limit.
const maxPlacesPerSlot = 64

// nextPlace is the number of the place that comes next.
func (s *Transfers) nextPlace() uint64 { return s.firstPlace + uint64(len(s.places)) }

// ApplyGrant applies a builder unit's answer to an announcement. An error says what is wrong with the grant, which then
// had no effect.
func (s *Transfers) ApplyGrant(bu int, g *placing.Grant) error {
	b := &s.builders[bu]
	if int(g.Slot) >= len(b.latestPlaces) {
		return newTokenError(bu, g.Slot, g.MEP, "a window was granted in a slot that does not exist")
	}
	t := s.latestIn(bu, g.Slot)
	switch {
	case g.Length == anyLength:
		return newTokenError(bu, g.Slot, g.MEP, "a window was granted that is larger than a part can be")
	case t != nil && t.Stage == stageAnnounced && t.MEP == g.MEP && uint32(t.Attempt) == g.Attempt:
	case b.validFromCycle > 0: // it is for a transfer that the builder unit's exclusion has ended
		s.LateGrants++
		return nil
	default:
		return newTokenError(bu, g.Slot, g.MEP, "a window was granted that was not asked for, or twice")
	}
	t.Stage, t.window = stageGranted, window{shmem.Ref{Window: g.Window, Gen: g.Gen}, g.Length}
	s.builders[bu].noteAnswer()
	return s.order.Note(Granted, b.latestPlaces[g.Slot]-1)
}

// enablePreGranted sets that every window is granted once, for all MEPs. It must be called before the first token
// comes.
func (s *Transfers) enablePreGranted() { s.usesPreGrants = true }

// applyPreGrants applies windows that a builder unit grants once, for all MEPs. A repeated window must be the same. An
// error says what is wrong; the message then had no effect.
func (s *Transfers) applyPreGrants(bu int, m *placing.PreGrants) error {
	b := &s.builders[bu]
	slots := len(b.preGranted)
	switch {
	case !s.usesPreGrants:
		return fmt.Errorf("builder unit %d granted windows for all MEPs, where they are granted for each", bu)
	case uint64(m.FirstSlot)+uint64(len(m.Refs)) > uint64(slots):
		return &tokenError{BU: bu, Slot: m.FirstSlot, Reason: fmt.Sprintf(
			"windows were granted in %d slots from there on, but there are %d slots", len(m.Refs), slots)}
	}
	have := b.preGranted[m.FirstSlot:][:len(m.Refs)]
	for i, ref := range m.Refs {
		switch r := shmem.Ref(ref); {
		case r.Gen == 0:
			return &tokenError{BU: bu, Slot: m.FirstSlot + uint32(i), Reason: "an empty window was granted"}
		case have[i] != (shmem.Ref{}) && have[i] != r:
			return &tokenError{BU: bu, Slot: m.FirstSlot + uint32(i), Reason: "another window was granted than before"}
		}
	}
	s.builders[bu].noteAnswer()
	for i, ref := range m.Refs {
		have[i] = shmem.Ref(ref)
		slot := m.FirstSlot + uint32(i)
		if t := s.latestIn(bu, slot); t != nil && t.Stage == stageAnnounced {
			t.Stage, t.window = stageGranted, window{have[i], anyLength}
			if err := s.order.Note(Granted, b.latestPlaces[slot]-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// setLinkFull notes whether the link to a builder unit accepts no more writes for now. In a discipline without phases
// and tags, Next then names a transfer to another builder unit; otherwise it names the same one until the link accepts
// it.
func (s *Transfers) setLinkFull(bu int, full bool) {
	s.builders[bu].linkFull = full
	_ = s.order.Note(LinkChanged, uint64(bu)) // only CycleCame may have an error
}

// Next returns what the unit does now; for Send, also the place of the transfer to send. It changes nothing.
func (s *Transfers) Next() (Turn, uint64) { return s.order.Next() }

// Serve notes that the write of the transfer that Next named is queued, with other transfers to the same builder unit,
// most in all. It appends their places.
func (s *Transfers) Serve(n uint64, most int, places []uint64) []uint64 {
	from := len(places)
	places = s.order.Along(append(places, n), from+most)
	for _, n := range places[from:] {
		s.TransferAt(n).Stage = stageSent
	}
	s.awaited.begin(&s.builders[s.TransferAt(n).BU], len(places)-from)
	_ = s.order.Note(Sent, n) // only CycleCame may have an error
	return places
}

// Complete applies the outcome of a write, with the places that one Serve returned. It refuses a transfer that is not
// under way.
func (s *Transfers) Complete(places []uint64) error {
	written := false // with an outcome that is awaited
	for _, n := range places {
		if !s.isKept(n) {
			return &notUnderWayError{n}
		}
		switch t := s.TransferAt(n); t.Stage {
		case stageSent:
			t.Stage = stageDone
			s.openCount--
			s.awaited.end(&s.builders[t.BU])
		case stageOrphaned:
			t.Stage = stageDone
			s.builders[t.BU].orphanedWrites--
			continue
		default:
			return &notUnderWayError{n}
		}
		written = true
	}
	if written {
		s.builders[s.TransferAt(places[0]).BU].noteAnswer()
		return s.order.Note(Written, places[0])
	}
	return nil
}

// OpenTransfers is the number of transfers that are not done.
func (s *Transfers) OpenTransfers() int { return s.openCount }

// Exclusion is one exclusion of a builder unit.
type Exclusion struct {
	BU     int
	Number uint64 // its place among all exclusions received
	Count  uint32 // exclusions of this builder unit so far, with this one
}

// WithdrawalStats counts tokens and writes for builder units that were excluded or lost.
type WithdrawalStats struct {
	WithdrawnTokens uint64 `count:"withdrawn" help:"tokens not used, since their builder unit was excluded or lost"`
	FailedWrites    uint64 `count:"writes_lost" help:"writes under way to a builder unit when it was excluded or lost"`
	LateGrants      uint64 `help:"windows granted by a builder unit that was excluded meanwhile"`
}

// isWithdrawn tells that a builder unit's token in a cycle is withdrawn.
func (s *Transfers) isWithdrawn(cycle uint64, bu int) bool {
	return cycle < s.builders[bu].validFromCycle
}

// isLost tells whether the link to a builder unit is down.
func (s *Transfers) isLost(bu int) bool { return s.builders[bu].lost }

// Withdraw applies the exclusion of a builder unit: no part is sent any more by its earlier tokens. These are all
// tokens here, since later ones come after the exclusion. A repeated exclusion changes nothing else. If a lost unit is
// back, its windows are to be granted anew.
func (s *Transfers) Withdraw(w core.Withdrawal) {
	switch {
	case int(w.BU) >= len(s.builders):
	case w.Returned:
		s.restore(w)
	default:
		b := &s.builders[w.BU]
		b.validFromCycle = max(b.validFromCycle, w.BeforeCycle)
		b.exclusions++
		s.unquiesced = append(s.unquiesced, Exclusion{int(w.BU), s.exclusionsReceived, b.exclusions})
	}
	s.exclusionsReceived++
	s.withdrawAll(int(w.BU))
}

// restore notes that a lost builder unit is back: no exclusion of its former process is to be confirmed.
func (s *Transfers) restore(w core.Withdrawal) {
	b := &s.builders[w.BU]
	b.validFromCycle, b.lost, b.exclusions = w.BeforeCycle, false, 0
	clear(b.preGranted)
	s.unquiesced = slices.DeleteFunc(s.unquiesced, func(x Exclusion) bool { return x.BU == int(w.BU) })
}

// markLost notes that the link to a builder unit is down: no write to it will have an outcome. All tokens for it that
// are still to come are withdrawn.
func (s *Transfers) markLost(bu int) {
	b := &s.builders[bu]
	if b.lost {
		return
	}
	b.validFromCycle, b.lost = math.MaxUint64, true
	s.withdrawAll(bu)
}

// withdrawAll ends the transfers to a builder unit.
func (s *Transfers) withdrawAll(bu int) {
	for i := range s.places {
		if t := &s.places[i]; int(t.BU) == bu {
			s.withdrawTransfer(t)
		}
	}
	if bu < len(s.builders) {
		s.builders[bu].noteAnswer()
	}
	_ = s.order.Note(Withdrawn, uint64(bu)) // only CycleCame may have an error
}

// withdrawTransfer ends a transfer whose token is withdrawn. A write to a lost builder unit will have no outcome.
func (s *Transfers) withdrawTransfer(t *Transfer) {
	b := &s.builders[t.BU]
	switch t.Stage {
	case stageCredit, stageAnnounced, stageGranted:
		t.Stage = stageDone
		s.openCount--
		s.WithdrawnTokens++
	case stageSent:
		t.Stage = stageOrphaned
		s.openCount--
		s.awaited.end(&s.builders[t.BU])
		b.orphanedWrites++
	}
	if b.lost && t.Stage == stageOrphaned {
		t.Stage = stageDone
		b.orphanedWrites--
		s.FailedWrites++
		s.WithdrawnTokens++
	}
}

// nextQuiesced returns the next exclusion of which nothing is under way any more, each once. An exclusion of a lost
// builder unit never is returned.
func (s *Transfers) nextQuiesced() (x Exclusion, ok bool) {
	for i, x := range s.unquiesced {
		if b := &s.builders[x.BU]; b.orphanedWrites == 0 && !b.lost {
			s.unquiesced = slices.Delete(s.unquiesced, i, i+1)
			return x, true
		}
	}
	return Exclusion{}, false
}

// orphanedWrites is the number of writes under way whose outcome is not awaited.
func (s *Transfers) orphanedWrites() (n int) {
	for b := range s.builders {
		n += s.builders[b].orphanedWrites
	}
	return n
}

// rounds are the phases of a readout unit: each round serves one cycle of tokens or several, so that a phase sends
// enough to be worth its barrier. Units whose phases end by a barrier agree on the number of cycles: the least that any
// unit offers.
type rounds struct {
	maxCycles int      // how many cycles a round may have
	start     uint64   // first place of the current round
	cycles    int      // of the current round; 0: it serves only what earlier rounds have left
	phase     int      // of the current round
	bounds    []uint64 // numbers of cycles that must begin a round, in order
}

// setMaxCycles sets the most cycles of a round. It must be called before the first cycle comes.
func (s *Transfers) setMaxCycles(most int) { s.rounds.maxCycles = max(1, most) }

// progress is the current phase, and how many phases a round has.
func (s *Transfers) progress() (phase, phases int) { return s.rounds.phase, len(s.visits) }

// hasRound reports whether there is a round to serve.
func (s *Transfers) hasRound() bool {
	return s.rounds.cycles == emptyRound || s.rounds.start < s.credits.placesReady(s.nextPlace())
}

// emptyRound is the number of cycles of a round that serves only what earlier rounds have left, for AdvancePhase.
const emptyRound = 0

// cyclesAhead is how many cycles this unit could serve in the next round, if the other units have them too.
func (s *Transfers) cyclesAhead() int {
	r, places := &s.rounds, uint64(s.placesPerCycle)
	next := r.start + uint64(r.cycles)*places
	if next >= s.credits.placesReady(s.nextPlace()) {
		return 0
	}
	n := min(r.maxCycles, int((s.credits.placesReady(s.nextPlace())-next)/places))
	for _, bound := range r.bounds {
		switch nextCycle := next / places; {
		case bound == nextCycle:
			n = 1 // units that begin here have not agreed on more
		case bound > nextCycle && bound-nextCycle < uint64(n):
			n = int(bound - nextCycle)
		}
	}
	return n
}

// boundRound notes that a round must begin with the cycle of that number. The cycle must not have come yet.
func (s *Transfers) boundRound(cycle uint64) { s.rounds.bounds = append(s.rounds.bounds, cycle) }

// RoundStart is the number of the first cycle of the current round.
func (s *Transfers) RoundStart() uint64 { return s.rounds.start / uint64(s.placesPerCycle) }

// AdvancePhase goes on to the next phase. After the last phase of a round, the next round has that many cycles: at most
// cyclesAhead, or one that is still to come, or emptyRound. Readout units whose phases end by a barrier must all pass
// the same number.
func (s *Transfers) AdvancePhase(cycles int) {
	r := &s.rounds
	if r.phase++; r.phase == len(s.visits) {
		r.phase = 0
		r.start += uint64(r.cycles * s.placesPerCycle)
		r.cycles = cycles
		for len(r.bounds) > 0 && r.bounds[0] <= s.RoundStart() {
			r.bounds = r.bounds[1:]
		}
	}
	_ = s.order.Note(PhaseBegan, uint64(r.phase)) // only CycleCame may have an error
}

// minPhaseTime is how long a unit should write in a phase for the phase to be worth its barrier. A longer phase would
// only keep slots that others could fill meanwhile.
const minPhaseTime = 20 * time.Millisecond

// roundPacer says how many cycles the next round of phases should have, from the time that the parts of this round and
// the last one took to write. Time in barriers and waits for tokens do not count: more cycles do not make them longer.
// The zero roundPacer has measured nothing yet.
type roundPacer struct {
	round             uint64 // number of its first cycle
	current, previous roundWrites
}

// roundWrites is how many parts a unit has written in a round, and how long it took.
type roundWrites struct {
	parts int64
	took  time.Duration
}

// record adds the parts that a unit has written in a phase of a round.
func (p *roundPacer) record(round uint64, parts int, took time.Duration) {
	if round != p.round {
		p.round, p.previous, p.current = round, p.current, roundWrites{}
	}
	p.current.parts += int64(parts)
	p.current.took += took
}

// boundCycles is how many of the cycles ahead the next round should have: as many as take minPhaseTime in each phase,
// rounded up.
func (p *roundPacer) boundCycles(ahead int) int {
	parts, took := p.current.parts+p.previous.parts, int64(p.current.took+p.previous.took)
	if parts == 0 || took <= 0 {
		return ahead
	}
	return int(min(int64(ahead), (minPhaseTime.Nanoseconds()*parts+took-1)/took))
}

// untilPhase is the time from now, since an epoch that all readout units share, until the next period of the given
// length in which the phase has its turn: period k belongs to phase k mod phases. So equal phases coincide on all
// units, whichever cycle a unit is in, and no builder unit has two senders (LHCb-EB §II.A: "switch on a time window").
func untilPhase(now, length time.Duration, phase, phases int) time.Duration {
	round := length * time.Duration(phases)
	wait := (length*time.Duration(phase) - now%round) % round
	if wait < 0 {
		wait += round
	}
	return wait
}

// An Order is a discipline at a readout unit: it decides in which order the transfers of a table are served, and what
// has to happen in between. It is a pure core, and reads the table that it was made for.
type Order interface {
	// Visits are the builder units, by index, in the order in which the unit visits those of a cycle, each once. With
	// phases: one entry for each phase, a builder unit or Dummy. It never changes.
	Visits() []int
	// FirstNeeded is the first place that the order may still look at, even if it is empty or done.
	FirstNeeded() uint64
	// Next returns what the unit does now; for Send, also the place of the transfer to send. The result changes only when
	// the table changes, and by Note.
	Next() (Turn, uint64)
	// Along appends the places of transfers that may go in the same write as the one that Next named, whose place is the
	// last in the list. most bounds the length of the whole list.
	Along(places []uint64, most int) []uint64
	// Note tells the order of a change of the table. Only CycleCame may return an error: the tokens contradict a tag, and
	// the unit cannot go on.
	Note(c Change, n uint64) error
}

// TagOrder is an order in which tags carry the right to send from readout unit to readout unit.
type TagOrder interface {
	// AddTag adds a tag. An error says what is wrong with the tag, which then had no effect.
	AddTag(t *core.Tag) error
	// NextForward is the next tag that this unit has finished with, for the caller to pass on; each is returned once.
	NextForward() (core.Tag, bool)
	// ChangeRing drops all tags: readout units have gone or rejoined, and the tags start again in that generation of the
	// ring. Tags of an earlier one that still come are dropped.
	ChangeRing(generation uint16)
	// BypassedTags is how many tags were passed on unserved because the unit was busy.
	BypassedTags() uint64
}

// Change is a change of the table of transfers.
type Change uint8

// Changes, and the meaning of the number n with each.
const (
	CycleCame   Change = iota // the first place of the cycle; transfers with pre-granted windows are granted already
	Granted                   // the place of the transfer that has its window now
	Sent                      // the place of the first transfer of a write that was queued
	Written                   // the place of the first transfer of a write that has its outcome
	Withdrawn                 // the builder unit whose transfers were withdrawn
	LinkChanged               // the builder unit whose link may have become full, or may not be any more
	PhaseBegan                // the phase
)

// Turn is what the unit does now.
type Turn uint8

// Turns.
const (
	WaitToken Turn = iota // it waits for tokens: it has nothing to serve
	WaitGrant             // it waits for a builder unit to grant a window
	WaitWrite             // it waits for the outcome of a write
	WaitTag               // it waits for a tag, the right to send
	// it waits until a link accepts a write: the links to all builder units that it could serve are full
	WaitLink
	Send         // it sends
	AdvancePhase // it goes on to the next phase, together with the others
)

func (t Turn) String() string {
	return [...]string{"waits for tokens", "waits for a grant", "waits for its write", "waits for a tag",
		"waits for room in a link", "sends", "goes on"}[t]
}
