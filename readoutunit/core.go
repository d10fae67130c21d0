package readoutunit

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/internal/standstill"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/transport/link"
)

// Core decides everything that a readout unit does once its MEPs are in its memory: what it announces, writes and
// frees, when a phase is over, and what a lost builder unit means. It does no I/O, starts no goroutine, reads no clock
// and takes no lock; its owner calls it, and uses its Retention, under one lock.
//
// Two of its owner's goroutines carry out actions of their own: the dispatcher, which passes TokensCame, announces; the
// conductor, which reports with ConductorFree that it has carried out its last action, writes and enters the barrier.
// The goroutine that calls Step carries out all other actions at once, in order, before the next step.
type Core struct {
	// immutable
	cfg  CoreConfig
	tags TagOrder // the order of the transfers as a TagOrder; nil if it is none
	held phased   // the order, if a builder unit that stands still is passed over in it; else nil

	transfers  *Transfers
	bursts     *burstPool
	rejections *Rejections
	pacer      roundPacer
	absences   uint64 // changes of members so far
	clearing   bool   // the tag ring has changed, and the unit is to report when no write is under way
	members    []int  // readout units that take part, as far as this unit knows
	released   uint64 // MEPs below have their outcome, or were put aside
	announcing bool   // the dispatcher announces tokens, and so reads their parts
	requested  bool   // the unit has requested the pre-granted windows
	tokensOver bool   // no more tokens will come
	phasesLeft bool   // tokensOver, and the conductor has left the last phase
	drained    bool   // phasesLeft, every write has its outcome, and Drained was returned

	phase       phase
	offered     int                 // cycles that this unit last offered at the barrier, or that all agreed on
	roundOver   bool                // the round is over; the open epochs decide whether an empty one follows
	standstill  standstill.Detector // of builder units that hold phases
	answersSeen uint64              // grants and outcomes, at the last look of standstill
	tag         core.Tag            // the last that came
	forwarded   []core.Tag          // of this step
	firstAction time.Time           // when the conductor got its first action
	lastAction  time.Time           // time of the last write or end of a phase
	timeline    timeline
	stats       Stats

	out []Action // of this step
}

// CoreConfig configures a Core.
type CoreConfig struct {
	RU, RUs   int
	Transfers *Transfers // and their discipline
	Retention *Retention
	Streams   int // MFPs in each part
	// Rejoin is the rejoin with which a unit takes part that was lost in the run: its source gives the MEPs from
	// Rejoin.FirstMEP on. Zero: the unit takes part from the beginning.
	Rejoin core.Absence
	// Rejection says which parts may be freed because their events were rejected.
	Rejection RejectionPolicy
	// Push: tokens come before their MEPs are read, and the unit steps MEPsRead.
	Push bool
	// PhaseTime is the length of a phase, if phases end by time. UnheldPhases: neither time nor barrier holds a phase.
	PhaseTime    time.Duration
	UnheldPhases bool
	// TimelineSteps is how many of the last steps Unit.Timeline keeps. 0: none.
	TimelineSteps int
}

// phase is the phase that the unit is in.
type phase struct {
	begun   time.Time // zero: it has not begun
	awaited bool      // AwaitPhase was returned, if phases end by time
	yielded bool      // Yield was returned since the last write
	parts   int       // parts sent in it
}

// Input is an input of a Core. Beside each kind stand the fields that it uses.
type Input struct {
	Kind      InputKind
	BU        int // index; a number below 0 is no builder unit
	RU        int // index
	Tokens    *tagnet.Tokens
	Grant     placing.Grant
	PreGrants *placing.PreGrants
	Tag       core.Tag
	MEP       uint64
	First     uint64 // event
	Events    uint64
	Cookie    uint64
	Err       error
	Waited    time.Duration
	Held      barrier.Straggler
	Finished  []barrier.Straggler
	Now       time.Time
}

// InputKind is a kind of Input.
type InputKind uint8

// Kinds of Input.
const (
	TokensCame      InputKind = iota // Tokens
	MEPsRead                         // MEP: with push, the MEPs below are read
	TokensOver                       // no more tokens will come
	Announced                        // the dispatcher has announced the last tokens
	GrantCame                        // BU, Grant
	PreGrantsCame                    // BU, PreGrants
	TagCame                          // RU, Tag, from the preceding readout unit
	MessageRefused                   // Err: a message of another unit cannot be decoded
	EventsRejected                   // First, Events: events that builder units have rejected
	WriteCompleted                   // BU, Cookie, Err, Now
	WriteRelocated                   // Cookie: the pieces of the write lie in other memory now
	BULost                           // BU: the link to it is down, and the run tolerates that
	ConductorFree                    // Now
	BarrierPassed                    // Waited, Held, Now: the phase is over
	BarrierFinished                  // Finished, Now
)

// Action is something that the caller of Step must do. Beside each kind stand the fields that it uses; the others are
// zero.
type Action struct {
	Kind    ActionKind
	Turn    Turn
	BU      int
	Count   int
	Number  uint64
	Token   core.Token
	Part    []byte
	Pieces  []link.Piece
	Move    func(piece int) []byte
	Within  time.Duration
	Absence *core.Absence
	Members []int
	Tag     *core.Tag
	Err     error
}

// ActionKind is a kind of Action.
type ActionKind uint8

// Kinds of Action.
const (
	// The caller does these at once.

	FreeBuffers      ActionKind = iota // Number: MEPs below are no longer needed
	RelocateWrite                      // BU, Number: cookie, Move: new memory of each piece; then step WriteRelocated
	ChangeMembers                      // Absence, Members: of the barrier from Absence.FirstCycle on
	ReportTriggered                    // Number: MEPs below have tokens
	ForwardTag                         // Tag: this unit has finished with it, Count: the next readout unit; −1: back
	ReportCleared                      // Number: absences since which all tags are dropped and no write is under way
	ReportStop                         // Number: the unit has assigned no MEP from it on, and waits for the end of the run
	ConfirmExclusion                   // BU, Number: among all exclusions, Count: among those of the builder unit
	Drained                            // no token to serve and no write without outcome are left
	Refuse                             // Err: the input had no effect
	Fail                               // Err: the unit cannot go on

	// The dispatcher does these.

	Announce       // BU, Token, Part: begins with the sizes
	RequestWindows // BU

	// The conductor does these.

	Write         // BU, Number: cookie, Pieces
	Yield         // let the network's goroutines run
	AwaitPhase    // Number: phase, Count: phases of a round. Wait for the time of the phase
	EnterBarrier  // Number: first cycle of the round, Count: cycles to offer; then step BarrierPassed
	FinishBarrier // leave all open epochs; then step BarrierFinished
	Leave         // end: there will be no more actions
	Wait          // Turn: for what, Within: longest time, or 0. Call again after another step, or after this time
)

// newCore makes the core of a readout unit.
func newCore(cfg CoreConfig) *Core {
	c := &Core{
		cfg:        cfg,
		tags:       cfg.Transfers.TagOrder(),
		held:       phasedOf(cfg.Transfers),
		transfers:  cfg.Transfers,
		bursts:     newBurstPool(cfg.Transfers.placesPerCycle),
		rejections: NewRejections(cfg.Rejection, cfg.Retention.Len()),
		members:    allUnits(cfg.RUs),
	}
	c.stats.BarrierStats, c.timeline = newBarrierStats(cfg.RU, cfg.RUs), newTimeline(cfg.TimelineSteps)
	c.stats.BytesByBU = make([]uint64, cfg.Transfers.placesPerCycle)
	c.transfers.onWindowless = c.requestWindow
	if cfg.Rejoin.Rejoined {
		c.transfers.beginAt(cfg.Rejoin.FirstCycle, cfg.Rejoin.FirstMEP)
		cfg.Retention.beginAt(cfg.Rejoin.FirstMEP)
	}
	return c
}

// Step applies an input, and appends the actions that follow. It allocates nothing for tokens, grants and writes.
func (c *Core) Step(in *Input, out []Action) []Action {
	c.out = out
	switch in.Kind {
	case TokensCame:
		c.fail(c.addTokens(in.Tokens))
	case MEPsRead:
		c.fail(MarkRead(c.transfers, in.MEP))
		c.reportTriggered()
	case TokensOver:
		c.tokensOver = true
	case Announced:
		c.announcing = false
		if c.cfg.Rejection.Packing > 0 {
			c.free() // the decision may have come before the token
		}
	case GrantCame:
		c.refuse(c.addGrant(in.BU, &in.Grant))
	case PreGrantsCame:
		c.refuse(c.transfers.applyPreGrants(in.BU, in.PreGrants))
	case TagCame:
		c.tag = in.Tag // a pointer to in.Tag would move the whole input to the heap
		c.refuse(c.addPassedTag(in.RU))
	case MessageRefused:
		c.refuse(in.Err)
	case EventsRejected:
		c.rejections.MarkRejected(in.First, in.Events)
		c.free()
	case WriteCompleted:
		c.fail(c.completeWrite(in))
	case WriteRelocated:
		c.bursts.markMoved(in.Cookie)
		c.stats.RelocatedWrites++
		c.free()
	case BULost:
		c.transfers.markLost(in.BU)
		c.bursts.abandon(in.BU)
		c.free()
		c.updateLinkFull(in.BU)
	case ConductorFree:
		c.conduct(in.Now)
	case BarrierPassed:
		c.fail(c.stats.recordWait(in.Waited))
		c.fail(c.stats.recordHolder(in.Held))
		c.leaveEpoch(in)
	case BarrierFinished:
		c.finishEpochs(in)
	}
	c.forwardTags()
	if c.clearing && c.transfers.awaited.count == 0 {
		c.clearing = false
		c.do(Action{Kind: ReportCleared, Number: c.absences})
	}
	if c.phasesLeft && !c.drained && c.isIdle() {
		c.drained = true
		c.do(Action{Kind: Drained})
	}
	return c.out
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

// fail returns the action Fail, if there is an error.
func (c *Core) fail(err error) {
	if err != nil {
		c.do(Action{Kind: Fail, Err: err})
	}
}

// refuse returns the action Refuse, if there is an error. A tag that contradicts the tokens also ends the unit: the tag
// would never get back to the scheduler, and the tag ring would stand still.
func (c *Core) refuse(err error) {
	if err == nil {
		return
	}
	c.stats.RefusedGrants++
	c.do(Action{Kind: Refuse, Err: err})
	if wrong := (*tagError)(nil); errors.As(err, &wrong) {
		c.fail(err)
	}
}

// addTokens applies what the scheduler has sent: exclusions, absences, the watermark, cycles and tags, in this order
// since each concerns those after it.
func (c *Core) addTokens(t *tagnet.Tokens) error {
	for _, w := range t.Withdrawals {
		c.transfers.Withdraw(w)
		if bu := int(w.BU); w.Returned && c.requested {
			c.do(Action{Kind: RequestWindows, BU: bu})
		}
	}
	c.confirmQuiesced()
	for i := range t.Absences {
		c.changeMembers(&t.Absences[i])
	}
	c.cfg.Retention.copyHeldUp(t.HeldUp)
	c.transfers.Release(lowestNeeded(t))
	c.released = t.Released
	c.bursts.release(t.Released)
	c.relocateHeldUp(t.HeldUp)
	c.free()
	for i := range t.Len() {
		if err := c.transfers.AddCycle(&t.Batch, i); err != nil {
			return err
		}
	}
	if c.transfers.credits != nil {
		stopped, err := c.transfers.credits.follow(t.State, t.EndKnown, t.EndMEP)
		if err != nil {
			return err
		}
		if stopped {
			c.do(Action{Kind: ReportStop, Number: c.transfers.credits.assignedBelow()})
		}
	}
	if t.Len() > 0 {
		c.announcing = true
		c.reportTriggered()
	}
	for i := range t.Tags {
		if err := c.addTag(&t.Tags[i]); err != nil {
			return err
		}
	}
	return nil
}

// reportTriggered returns the action ReportTriggered: of the MEPs that have tokens, and with push are assigned.
func (c *Core) reportTriggered() {
	below := c.transfers.tokensBelow
	if c.transfers.credits != nil {
		below = c.transfers.credits.assignedBelow()
	}
	c.do(Action{Kind: ReportTriggered, Number: below})
}

// requestWindow returns the action that requests the window of a transfer that has begun: Announce for this transfer,
// or once RequestWindows for all.
func (c *Core) requestWindow(t *Transfer) {
	if c.cfg.Rejection.Packing > 0 {
		c.rejections.AddToken(t.MEP, t.BU, t.Slot)
	}
	if !c.transfers.usesPreGrants {
		part, err := c.cfg.Retention.lookUp(t.MEP)
		if err != nil {
			c.fail(fmt.Errorf("announcing MEP %d to builder unit %d: %w", t.MEP, t.BU, err))
		}
		c.do(Action{Kind: Announce, BU: int(t.BU), Token: t.Token, Part: part})
		return
	}
	for bu := 0; bu < c.transfers.placesPerCycle && !c.requested; bu++ {
		if !c.transfers.isLost(bu) {
			c.do(Action{Kind: RequestWindows, BU: bu})
		}
	}
	c.requested = true
}

// addGrant applies a window that was granted for one MEP.
func (c *Core) addGrant(bu int, g *placing.Grant) error {
	if c.transfers.usesPreGrants {
		return fmt.Errorf("a window for MEP %d came from builder unit %d, which has granted its windows for all MEPs",
			g.MEP, bu)
	}
	return c.transfers.ApplyGrant(bu, g)
}

// addTag passes a tag to the order.
func (c *Core) addTag(t *core.Tag) error {
	if c.tags == nil {
		return errNoTagRing
	}
	return c.tags.AddTag(t)
}

// addPassedTag passes the tag of another readout unit to the order.
func (c *Core) addPassedTag(from int) error {
	at, _ := slices.BinarySearch(c.members, c.cfg.RU)
	if c.tags != nil && c.tag.Generation == uint16(c.absences) && (at == 0 || c.members[at-1] != from) {
		return fmt.Errorf("readout unit %d passed on a tag of MEP %d, and tags come only from the readout unit before "+
			"this one", from, c.tag.MEP)
	}
	return c.addTag(&c.tag)
}

// forwardTags returns the action ForwardTag for each tag that this unit has finished with.
func (c *Core) forwardTags() {
	if c.tags == nil {
		return
	}
	c.forwarded = c.forwarded[:0]
	next := -1
	if at, ok := slices.BinarySearch(c.members, c.cfg.RU); at+1 < len(c.members) && ok {
		next = c.members[at+1]
	}
	for t, ok := c.tags.NextForward(); ok; t, ok = c.tags.NextForward() {
		c.forwarded = append(c.forwarded, t)
		c.do(Action{Kind: ForwardTag, Count: next, Tag: &c.forwarded[len(c.forwarded)-1]})
	}
}

// changeMembers applies that a readout unit has gone or rejoined. The cycles that it concerns come after it.
func (c *Core) changeMembers(a *core.Absence) {
	if c.absences++; c.tags != nil {
		c.tags.ChangeRing(uint16(c.absences))
		c.clearing = true
	}
	switch i, takesPart := slices.BinarySearch(c.members, int(a.RU)); {
	case int(a.RU) >= c.cfg.RUs:
		return
	case a.Rejoined && !takesPart:
		c.members = slices.Insert(c.members, i, int(a.RU))
	case !a.Rejoined && takesPart:
		c.members = slices.Delete(c.members, i, i+1)
	}
	c.transfers.boundRound(a.FirstCycle)
	c.do(Action{Kind: ChangeMembers, Absence: a, Members: slices.Clone(c.members)})
}

// confirmQuiesced returns the action ConfirmExclusion for each exclusion of which this unit has nothing under way any
// more.
func (c *Core) confirmQuiesced() {
	for x, ok := c.transfers.nextQuiesced(); ok; x, ok = c.transfers.nextQuiesced() {
		c.do(Action{Kind: ConfirmExclusion, BU: x.BU, Number: x.Number, Count: int(x.Count)})
	}
}

// lowestNeeded is the lowest MEP without an outcome, for memory that is freed in order.
func lowestNeeded(t *tagnet.Tokens) uint64 {
	if len(t.HeldUp) > 0 {
		return t.HeldUp[0]
	}
	return t.Released
}

// free frees what is no longer needed.
func (c *Core) free() {
	if c.cfg.Rejection.Packing > 0 && !c.announcing {
		c.bursts.release(c.rejections.Release(c.released, c.transfers.Reject, c.cfg.Retention.partSize))
	}
	c.do(Action{Kind: FreeBuffers, Number: c.bursts.lowestNeeded()})
}

// relocateHeldUp moves the bytes of writes under way to a builder unit that holds up MEPs into other memory: the parts
// put aside, and copies of the other parts in these writes. Otherwise the writes would keep their buffers until that
// builder unit answers and, since buffers are used in rotation, all buffers after them.
func (c *Core) relocateHeldUp(heldUp []uint64) {
	if len(heldUp) == 0 {
		return
	}
	c.bursts.forEachOvertaken(func(b *burst) {
		if !slices.ContainsFunc(b.Places, func(n uint64) bool {
			_, found := slices.BinarySearch(heldUp, c.transfers.TransferAt(n).MEP)
			return found
		}) {
			return // its outcome is on its way: the outcome of the MEP was faster
		}
		c.do(Action{Kind: RelocateWrite, BU: b.BU, Number: uint64(b.id), Move: func(i int) []byte {
			data := b.Pieces[i].Data
			if part := c.cfg.Retention.heldUpPart(c.transfers.TransferAt(b.Places[i]).MEP); part != nil {
				return part[len(part)-len(data):] // without the sizes, if they were sent ahead
			}
			return bytes.Clone(data)
		}})
	})
}

// completeWrite applies the outcome of a write. A failed write that was orphaned by an exclusion is no error.
func (c *Core) completeWrite(in *Input) error {
	if in.BU >= 0 && c.transfers.isLost(in.BU) {
		return nil // the write was given up, and its memory with it
	}
	b, err := c.bursts.complete(in.Cookie)
	if err != nil {
		return errors.Join(err, in.Err)
	}
	first, parts := c.transfers.TransferAt(b.Places[0]), uint64(len(b.Places))
	orphaned := first.Stage == stageOrphaned
	if in.Err != nil && !orphaned {
		return fmt.Errorf("writing MEP %d to slot %d of builder unit %d: %w", first.MEP, first.Slot, b.BU, in.Err)
	}
	c.timeline.recordSent(in.Now, b.BU, first.MEP)
	if err := c.transfers.Complete(b.Places); err != nil {
		return err
	}
	if orphaned {
		c.confirmQuiesced()
	}
	if in.Err != nil {
		c.transfers.WithdrawnTokens += parts
		c.transfers.FailedWrites += parts
	} else {
		c.stats.PartsWritten += parts
		c.stats.BytesWritten += b.Bytes
		c.stats.BytesByBU[b.BU] += b.Bytes
	}
	c.updateLinkFull(b.BU)
	c.free()
	return nil
}

// updateLinkFull tells the order whether the link to a builder unit is full.
func (c *Core) updateLinkFull(bu int) {
	full := !c.bursts.canOpen(bu)
	if full {
		c.stats.TimesLinkFull++
	}
	c.transfers.setLinkFull(bu, full)
}

// conduct returns the conductor's next action. It ends phases that nothing holds on the way.
func (c *Core) conduct(now time.Time) {
	if c.phase.awaited && c.phase.begun.IsZero() {
		c.phase.begun = now
	}
	if c.roundOver {
		c.do(Action{Kind: FinishBarrier})
		return
	}
	for {
		turn, n := c.transfers.Next()
		if turn == Send && !c.bursts.canOpen(int(c.transfers.TransferAt(n).BU)) {
			turn = WaitLink
		}
		over := turn == WaitToken && c.tokensOver
		within, passedOver := c.watchPhase(turn, now)
		if passedOver {
			continue
		}
		if turn == AdvancePhase && within > 0 {
			turn = WaitWrite // of another readout unit, to a builder unit that stands still
		}
		if turn != Send && turn != AdvancePhase && !over {
			c.do(Action{Kind: Wait, Turn: turn, Within: within})
			return
		}
		if c.firstAction.IsZero() {
			c.firstAction = now
		}
		switch {
		case over:
			c.leave()
			return
		case c.cfg.PhaseTime > 0 && !c.phase.awaited:
			c.phase.awaited = true
			current, phases := c.transfers.progress()
			c.do(Action{Kind: AwaitPhase, Number: uint64(current), Count: phases})
			return
		case c.phase.begun.IsZero():
			c.phase.begun = now
		}
		if turn == Send {
			c.send(n, now)
			return
		}
		if c.advance(now) {
			return
		}
	}
}

// leave has the conductor leave the epochs that others are still in, once there will be no more phases for this unit.
func (c *Core) leave() {
	if !c.phasesLeft && !c.cfg.UnheldPhases && c.cfg.PhaseTime == 0 {
		c.do(Action{Kind: FinishBarrier})
		return
	}
	c.phasesLeft = true
	c.do(Action{Kind: Leave})
}

// send writes this unit's parts for the transfer at a place and for the transfers that may go along. It lets the
// network's goroutines run between two writes of a phase, but not after the last: the other units may wait at the
// barrier for this one.
func (c *Core) send(n uint64, now time.Time) {
	if c.phase.parts > 0 && !c.phase.yielded {
		c.phase.yielded = true
		c.do(Action{Kind: Yield})
		return
	}
	bu := int(c.transfers.TransferAt(n).BU)
	b := c.bursts.open(bu)
	b.Places = c.transfers.Serve(n, maxBurst, b.Places)
	for _, n := range b.Places {
		t := c.transfers.TransferAt(n)
		part, err := c.cfg.Retention.lookUp(t.MEP)
		if err == nil && t.GrantedBytes != anyLength {
			if part = part[c.cfg.Streams*placing.EntrySize:]; len(part) != int(t.GrantedBytes) {
				err = fmt.Errorf("builder unit %d granted %d bytes for MEP %d, but the MFPs of this readout unit have %d",
					bu, t.GrantedBytes, t.MEP, len(part))
			}
		}
		if err != nil {
			c.fail(err)
			return
		}
		b.add(t, part)
	}
	c.updateLinkFull(bu)
	c.phase.parts += len(b.Places)
	c.phase.yielded, c.lastAction = false, now
	c.timeline.recordBegin(now, c.stats.PhasesPassed, bu, c.transfers.TransferAt(n).MEP, len(b.Places))
	c.do(Action{Kind: Write, BU: bu, Number: uint64(b.id), Pieces: b.Pieces})
}

// advance ends the phase, or has the conductor enter the barrier if that holds the phase (held).
func (c *Core) advance(now time.Time) (held bool) {
	if c.phase.parts == 0 {
		c.stats.DummyPhases++
		c.timeline.recordBegin(now, c.stats.PhasesPassed, Dummy, 0, 0)
	}
	cycles, took := c.transfers.cyclesAhead(), now.Sub(c.phase.begun)
	switch {
	case c.cfg.PhaseTime > 0:
		if took > c.cfg.PhaseTime {
			c.stats.PhaseOverruns++
		}
	case !c.cfg.UnheldPhases:
		c.pacer.record(c.transfers.RoundStart(), c.phase.parts, took)
		c.offered = c.offer(c.pacer.boundCycles(cycles))
		c.do(Action{Kind: EnterBarrier, Number: c.barrierRound(), Count: c.offered})
		return true
	}
	c.endPhase(cyclesOf(c.offer(cycles)), now)
	return false
}

// endPhase goes on to the next phase; after the last phase of a round, to a round of that many cycles.
func (c *Core) endPhase(cycles int, now time.Time) {
	c.transfers.AdvancePhase(cycles)
	c.timeline.recordReleased(now, c.stats.PhasesPassed)
	c.phase, c.lastAction = phase{}, now
	c.stats.PhasesPassed++
}

// isIdle tells that there is no token to serve and no write without outcome.
func (c *Core) isIdle() bool {
	turn, _ := c.transfers.Next()
	return turn == WaitToken && c.transfers.OpenTransfers()+c.transfers.orphanedWrites() == 0
}

// Timeline returns the last steps, oldest first.
func (c *Core) Timeline() []TimelineStep { return c.timeline.steps() }

// Stats returns the counters of the core; all other fields are zero.
func (c *Core) Stats() Stats {
	s, t := c.stats, c.transfers
	s.TokensReceived, s.UnrequestedTokens = t.tokens, t.unrequested
	s.OpenTransfers, s.OrphanedWrites = t.OpenTransfers(), t.orphanedWrites()
	s.WithdrawalStats, s.RejectionStats = t.WithdrawalStats, c.rejections.Stats()
	s.FreedMFPs = s.FreedMEPs * uint64(c.cfg.Streams)
	s.BarrierStats, s.BytesByBU = s.BarrierStats.clone(), slices.Clone(s.BytesByBU)
	for bu := range t.builders {
		if t.isLost(bu) {
			s.BuildersLost++
		}
	}
	if c.tags != nil {
		s.BypassedTags = c.tags.BypassedTags()
	}
	if !c.lastAction.IsZero() {
		s.ConductingTime = c.lastAction.Sub(c.firstAction)
	}
	return s
}

// A burst is one write of a readout unit to one builder unit: its parts of one MEP or of many. Once it is filled, it
// belongs to the network until the write has its outcome.
type burst struct {
	BU     int
	Places []uint64     // of the transfers, as their Order numbers them
	Pieces []link.Piece // the parts, which go as one write
	Bytes  uint64       // in all parts

	id        int
	lowestMEP uint64 // lowest MEP whose buffer it needs; the largest number once its bytes were moved
	inUse     bool   // its write has no outcome yet
}

// maxBurst is the most parts of a burst: 512 parts of 200 bytes are 11 jumbo datagrams or 70 Ethernet ones, enough to
// fill a GSO buffer of 64 KiB, and little beside the slots of a builder unit (a choice, 2026-11-21).
const maxBurst = 512

// burstsPerBU bounds how many writes to one builder unit a readout unit has without responses: at the bound the link
// counts as full. It is far below the requests that a link queues, so that no write waits in a queue.
const burstsPerBU = 64

// burstPool is the pure core of the writes under way: which bursts have no outcome yet, and which MEPs they need. It
// does no I/O and takes no locks; its owner calls it under a lock.
//
//	open ─► add … ─► (write) ─► complete ─► lowestNeeded: buffers below may be freed
type burstPool struct {
	all           []*burst
	free          []*burst // the last used on top, whose memory is in the cache
	inUseByBU     []int    // by builder unit: bursts in use
	releasedBelow uint64   // every MEP below has its outcome, or was put aside
}

// newBurstPool makes the core for bus builder units.
func newBurstPool(bus int) *burstPool { return &burstPool{inUseByBU: make([]int, bus)} }

// canOpen tells that the unit may open a burst for a builder unit. Otherwise burstsPerBU bursts are under way to it,
// and one must complete first. Bursts to other builder units do not count: a builder unit that does not answer uses up
// only its own.
func (s *burstPool) canOpen(bu int) bool { return s.inUseByBU[bu] < burstsPerBU }

// open returns an empty burst for a builder unit. canOpen must be true.
func (s *burstPool) open(bu int) *burst {
	var b *burst
	if n := len(s.free); n > 0 {
		b = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		b = &burst{id: len(s.all)}
		s.all = append(s.all, b)
	}
	b.BU, b.Bytes, b.lowestMEP, b.inUse = bu, 0, math.MaxUint64, true
	b.Places, b.Pieces = b.Places[:0], b.Pieces[:0]
	s.inUseByBU[bu]++
	return b
}

// add appends the part of a transfer to an open burst.
func (b *burst) add(t *Transfer, part []byte) {
	var p *link.Piece
	b.Pieces, p = extend(b.Pieces)
	p.Ref, p.Imm, p.Data = t.Ref, placing.Immediate(t.MEP, t.Attempt, t.Slot), part
	b.Bytes += uint64(len(part))
	b.lowestMEP = min(b.lowestMEP, t.MEP)
}

// extend appends an element with any contents, and returns a pointer to it for the caller to fill in. An element that
// is first built and then appended is read right after smaller writes, for which a processor stalls 10 ns.
func extend[T any](list []T) ([]T, *T) {
	if len(list) == cap(list) {
		list = slices.Grow(list, 1)
	}
	list = list[:len(list)+1]
	return list, &list[len(list)-1]
}

// complete applies the outcome of the burst with that number, the cookie of its write. The burst stays readable until
// the next open. It refuses a burst that is not under way.
func (s *burstPool) complete(cookie uint64) (*burst, error) {
	if cookie >= uint64(len(s.all)) || !s.all[cookie].inUse {
		return nil, &notUnderWayError{cookie}
	}
	b := s.all[cookie]
	s.recycle(b)
	return b, nil
}

func (s *burstPool) recycle(b *burst) {
	b.inUse = false
	s.inUseByBU[b.BU]--
	s.free = append(s.free, b)
}

// abandon recycles all bursts under way to a builder unit, whose writes will have no outcome.
func (s *burstPool) abandon(bu int) {
	for _, b := range s.all {
		if b.BU == bu && b.inUse {
			s.recycle(b)
		}
	}
}

// release notes that every MEP below the given one has its outcome, or was put aside.
func (s *burstPool) release(below uint64) { s.releasedBelow = max(s.releasedBelow, below) }

// forEachOvertaken calls each for every burst under way that needs buffers of MEPs below the watermark.
func (s *burstPool) forEachOvertaken(each func(b *burst)) {
	for _, b := range s.all {
		if b.inUse && b.lowestMEP < s.releasedBelow {
			each(b)
		}
	}
}

// markMoved notes that the bytes of a burst lie in other memory: it needs no buffers any more.
func (s *burstPool) markMoved(cookie uint64) { s.all[cookie].lowestMEP = math.MaxUint64 }

// lowestNeeded is the lowest MEP whose buffer is still needed: it has no outcome yet, or the link may send its part
// again, since the response to a write may come after the outcome of the MEP. It looks at every burst: some ten, each
// of hundreds of parts.
func (s *burstPool) lowestNeeded() uint64 {
	lowest := s.releasedBelow
	for _, b := range s.all {
		if b.inUse {
			lowest = min(lowest, b.lowestMEP)
		}
	}
	return lowest
}
