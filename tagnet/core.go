package tagnet

import (
	"fmt"
	"math"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Core is the scheduler without its network: a step machine that does no I/O, has no clock and starts no goroutine.
//
//	Update ─► watermark ─┐
//	                     ├─► Issue ─► cycles of tokens
//	Feedback ─► free slots ┘
//	         └► outcome ─► record ─► Released
//
// One goroutine owns a Core. Neither ApplyFeedback nor Issue allocates, but for the error of a refused input and for
// the growth of the caller's Batch.
type Core struct {
	// Immutable after NewCore.

	cfg            Config
	placesPerCycle int
	recordMask     uint64 // Window - 1

	// Owned by the caller's goroutine.

	started, paused, draining bool

	readWatermark uint64 // every MEP below is held by all included RUs
	inputEnded    bool   // no included RU will go beyond read
	endMEP        uint64 // first MEP not to be issued, whatever is read
	nextMEP       uint64 // next MEP never issued before
	released      uint64 // every MEP below has its outcome, but those held up
	shortMEP      uint64 // the MEP with fewer events than Packing; NoMEP while none is known
	shortMEPLacks uint32 // events the short MEP lacks

	cutter *cutter // nil where every MEP but the last has Packing events

	records []mepRecord // of MEP k at k & mask, for k in [released, next)
	reissue queue       // MEPs to be issued again
	heldUp  heldUpMEPs  // MEPs below released that have no outcome

	groups  groups
	chooser *chooser // nil where the rules are plain and cycles are full: then the cursor is all it takes

	// tokens without outcome, for each cycle in flight; those of builder units left behind do not count
	openTokens []uint32
	freeCycles []uint32 // indices into openTokens
	nextCycle  uint64
	nextPlace  int // place that the next MEP is offered first: round robin (TagNet-farm §III.B.2)

	tagRing             *tagRing // nil without a ring
	withdrawals         []Withdrawal
	confirmedExclusions [][]bool // by exclusion and readout unit: nothing of it is under way there
	absences            []Absence
	absencesToAck       int // absences that every builder unit must go by before a new MEP is issued; 0: there is no such

	rus           []ruState
	bus           []buState
	activeBUs     int // BUs not excluded
	blockedBUs    int // active BUs without a free slot
	leftBehindBUs int // active BUs left behind
	waitReason    WaitReason

	counters *Counters
	depths   struct{ ready, cycles, window, reissue depth }
}

// mepRecord is what is kept of one MEP.
type mepRecord struct {
	slot    uint32
	cycle   uint32 // index into openTokens, or noCycle
	bu      uint16
	attempt uint8
	state   recordState
}

type recordState uint8

const (
	recordUnused recordState = iota
	recordInFlight
	recordToReissue
	recordFinal
)

type ruState struct {
	Update
	excluded   bool
	exclusions uint64
}

type buState struct {
	freeSlots     queue // of slots, first in first out as in the queues of TagNet-farm §III.B.4
	usedSlots     depth
	excluded      bool
	lost          bool // excluded for good
	ackedAbsences int  // of the absences
	leftBehind    bool // the others do not wait for it; see leaveBehind
	counters      *BUCounters
}

// NewCore makes a scheduler in state Idle for one view.
func NewCore(cfg Config) (*Core, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Core{
		cfg:            cfg,
		placesPerCycle: len(cfg.BUs),
		recordMask:     uint64(cfg.Window - 1),
		readWatermark:  cfg.FirstMEP,
		nextMEP:        cfg.FirstMEP,
		released:       cfg.FirstMEP,
		endMEP:         NoMEP,
		shortMEP:       NoMEP,
		records:        make([]mepRecord, cfg.Window),
		reissue:        newQueue(cfg.maxUnfinished()),
		openTokens:     make([]uint32, cfg.maxCyclesInFlight()),
		freeCycles:     make([]uint32, cfg.maxCyclesInFlight()),
		rus:            make([]ruState, len(cfg.RUs)),
		bus:            make([]buState, len(cfg.BUs)),
		activeBUs:      len(cfg.BUs),
		waitReason:     WaitForStart,
		counters: &Counters{
			WaitsFor: make([]uint64, numberOfWaitReasons),
			Refused:  make([]uint64, numberOfReasons),
		},
	}
	if cfg.EndMEP != 0 {
		c.endMEP = cfg.EndMEP
	}
	for i := range c.freeCycles {
		c.freeCycles[i] = uint32(i)
	}
	c.initUnits()
	window := uint64(cfg.Window)
	c.depths.ready, c.depths.window, c.depths.reissue = newDepth(window), newDepth(window),
		newDepth(uint64(cfg.maxUnfinished()))
	c.depths.cycles = newDepth(uint64(len(c.openTokens)))
	if cfg.Live {
		c.cutter = newCutter(&cfg)
	}
	c.setUpRules()
	return c, nil
}

// initUnits puts every unit into the state in which it begins: no event is read, all slots are free.
func (c *Core) initUnits() {
	for i := range c.rus {
		c.rus[i].ReadBelow = c.cfg.FirstMEP
	}
	for j := range c.bus {
		c.bus[j].freeSlots = newQueue(c.cfg.Slots)
		c.bus[j].usedSlots = newDepth(uint64(c.cfg.creditPerBU()))
		c.bus[j].freeAllSlots(c.cfg.creditPerBU())
		c.bus[j].counters = &BUCounters{}
	}
}

// setUpRules makes what the rules ask for: groups of builder units, the ring of tags, and who chooses the builder unit.
func (c *Core) setUpRules() {
	cfg := &c.cfg
	if len(cfg.Rules.Groups) > 0 {
		c.groups.groupOf, _ = setIndexOf("group", cfg.Rules.Groups, len(cfg.BUs)) // checked with the Config
		for _, group := range cfg.Rules.Groups {
			g := &tagnetv1.GroupRegister{}
			for _, bu := range group {
				g.Members = append(g.Members, cfg.BUs[bu])
			}
			c.groups.registers = append(c.groups.registers, g)
		}
	}
	turns, running := *cfg, &c.groups
	if cfg.TagRing {
		// An event runs while its tag is under way: tokens go ahead of that, as they please.
		c.tagRing = newTagRing(cfg, &c.groups)
		c.counters.Tags = c.tagRing.counters
		turns.Rules.Groups, running = nil, &groups{}
	}
	if turns.Loose || !turns.Rules.isPlain() {
		c.chooser = newChooser(&turns, c.bus, running)
	}
}

// freeAllSlots makes all slots free.
func (b *buState) freeAllSlots(slots int) {
	b.freeSlots.clear()
	for s := range slots {
		b.freeSlots.push(uint64(s))
	}
	b.usedSlots.set(0)
}

// Start leaves Idle: from now on Issue issues. It does nothing in any other state.
func (c *Core) Start() { c.started = true }

// Pause makes Issue issue nothing until Resume; outcomes are taken all the same. It is refused with NotNow when
// drained.
func (c *Core) Pause() error {
	if c.drained() {
		return c.refuseInState("pause")
	}
	c.paused = true
	return nil
}

// Resume ends a pause. It is refused with NotNow when drained.
func (c *Core) Resume() error {
	if c.drained() {
		return c.refuseInState("resume")
	}
	c.paused = false
	return nil
}

// Drain issues no MEP from end on that has not been issued already; 0 means none at all any more. MEPs of an excluded
// builder unit are still issued again. A pause ends, for a stop must always finish.
//
// Live data that were taken are not thrown away: with 0 the state tells the readout units to take no more, what they
// have is cut and issued, and their end is that of the run.
func (c *Core) Drain(end uint64) {
	c.draining, c.paused = true, false
	if end == 0 && c.cutter != nil && c.started {
		return
	}
	c.endMEP = min(c.endMEP, max(end, c.nextMEP))
}

// abandon gives every MEP without outcome the outcome Abandoned and finishes. It returns how many they were. For the
// end of a run that cannot be drained: readout units may free everything, and later feedback is refused as
// AlreadyFinal.
func (c *Core) abandon() int {
	c.endMEP, c.draining, c.paused = c.nextMEP, true, false
	n := 0
	c.forEachUnfinished(func(k uint64, r *mepRecord) {
		if r.state == recordInFlight {
			c.leaveCycle(r)
		}
		c.recordOutcome(k, r, Abandoned)
		n++
	})
	c.reissue.clear()
	c.depths.reissue.set(0)
	c.advanceReleased()
	if c.tagRing != nil {
		c.tagRing.abandon()
	}
	return n
}

// State tells where the scheduler stands.
func (c *Core) State() State {
	switch {
	case c.drained():
		return Drained
	case !c.started:
		return Idle
	case c.paused:
		return Paused
	case c.draining || c.inputEnded:
		return Draining
	}
	return Running
}

// Released is the watermark below which every MEP has its final outcome, but those in HeldUp. It never goes back.
func (c *Core) Released() uint64 { return c.released }

// InFlight is the number of issued MEPs without an outcome, those that wait to be issued again included.
func (c *Core) InFlight() int {
	n := c.counters
	return int(n.Issued - n.Built - n.Incomplete - n.Discarded - n.Rejected - n.Abandoned)
}

// firstCycleIncomplete tells that the first cycle could be issued, but is not full, and that more MEPs will come.
func (c *Core) firstCycleIncomplete() bool {
	n := c.newMEPs()
	return c.started && !c.cfg.Loose && c.nextCycle == 0 && !c.inputComplete() && n > 0 && n < uint64(c.activeBUs)
}

// worthBatching tells that so much is in flight that it pays to wait for more outcomes before issuing again: what is
// issued at a time goes to every readout unit in a message, whose cost does not depend on what is in it. Since much is
// in flight, more outcomes will come. Only a view with room for many small MEPs ever has so much.
func (c *Core) worthBatching() bool {
	capacity, used := c.maxInFlight(), c.tokensInFlight()
	if c.leftBehindBUs > 0 { // nobody waits for what they have
		capacity -= c.leftBehindBUs * c.cfg.creditPerBU()
		for j := range c.bus {
			if b := &c.bus[j]; b.leftBehind {
				used -= int(b.usedSlots.Now)
			}
		}
	}
	return capacity-used < batchStep(capacity) && (c.blockedBUs == 0 || !c.hasIdleBU())
}

// tokensInFlight is the number of tokens without an outcome.
func (c *Core) tokensInFlight() int { return c.InFlight() - c.reissue.len() }

// maxInFlight is how many MEPs can be in flight.
func (c *Core) maxInFlight() int {
	return min(c.cfg.LookAhead*c.placesPerCycle, c.cfg.Slots*c.activeBUs)
}

// batchStep is the share of maxInFlight that is worth a message: an eighth leaves the units seven to work on meanwhile.
// Below 256 tokens messages are few anyway, and latency counts: 0.
func batchStep(capacity int) int {
	if capacity < 256 {
		return 0
	}
	return capacity / 8
}

// newMEPs is the number of MEPs that could be issued for the first time.
func (c *Core) newMEPs() uint64 {
	if to := min(c.readWatermark, c.endMEP); to > c.nextMEP && !c.absencesUnacked() {
		return to - c.nextMEP
	}
	return 0
}

// inputComplete tells that no MEP will ever come beyond those that newMEPs counts now.
func (c *Core) inputComplete() bool { return c.inputEnded || c.readWatermark >= c.endMEP }

func (c *Core) drained() bool {
	return (c.started || c.draining) && (c.nextMEP >= c.endMEP || c.inputEnded && c.nextMEP >= c.readWatermark) &&
		c.InFlight() == 0 && (c.tagRing == nil || c.tagRing.isEmpty())
}

// eventCount of MEP k, as the readout units told them. They have told before k could be issued.
func (c *Core) eventCount(k uint64) uint64 {
	if c.cutter != nil {
		return uint64(c.cutter.cutOf(k, c.released).Events)
	}
	if k == c.shortMEP {
		return uint64(c.cfg.Packing) - uint64(c.shortMEPLacks)
	}
	return uint64(c.cfg.Packing)
}

func (c *Core) refuse(r Reason, unit, format string, args ...any) error {
	c.counters.Refused[r]++
	return &inputError{Reason: r, Unit: unit, Detail: fmt.Sprintf(format, args...)}
}

func (c *Core) refuseInState(op string) error {
	return c.refuse(NotNow, "scheduler", "cannot %s when %s", op, c.State())
}

// queue holds a bounded number of numbers, first in first out.
type queue struct {
	entries    []uint64 // that of number n at n mod their number
	head, tail uint64   // ever-growing; tail - head entries
}

func newQueue(capacity int) queue {
	n := 1
	for n < capacity {
		n <<= 1
	}
	return queue{entries: make([]uint64, n)}
}

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) clear() { q.head, q.tail = 0, 0 }

func (q *queue) push(v uint64) {
	q.entries[q.tail&uint64(len(q.entries)-1)] = v
	q.tail++
}

func (q *queue) pop() uint64 {
	v := q.entries[q.head&uint64(len(q.entries)-1)]
	q.head++
	return v
}

// saturate fits a count into an int.
func saturate(v uint64) int { return int(min(v, math.MaxInt)) }
