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
//	         └► outcome ─► ledger ─► Released
//
// One goroutine owns a Core. Neither Feedback nor Issue allocates, but for the error of a refused input and for the
// growth of the caller's Batch.
type Core struct {
	// Immutable after NewCore.

	cfg    Config
	places int
	mask   uint64 // Window - 1

	// Owned by the caller's goroutine.

	started, paused, draining bool

	read     uint64 // every MEP below is held by all included RUs
	ended    bool   // no included RU will go beyond read
	limit    uint64 // first MEP not to be issued, whatever is read
	next     uint64 // next MEP never issued before
	released uint64 // every MEP below has its outcome, but those held up
	short    uint64 // the MEP with fewer events than Packing; NoMEP while none is known
	missing  uint32 // events the short MEP lacks

	cuts *cutter // nil where every MEP but the last has Packing events

	ledger []record // of MEP k at k & mask, for k in [released, next)
	again  queue    // MEPs to be issued again
	held   heldUp   // MEPs below released that have no outcome

	groups  groups
	chooser *chooser // nil where the rules are plain and cycles are full: then the cursor is all it takes

	// tokens without outcome, for each cycle in flight; those of builder units left behind do not count
	open       []uint32
	freeCycles []uint32 // indices into open
	nextCycle  uint64
	cursor     int // place that the next MEP is offered first: round robin (TagNet-farm §III.B.2)

	ring      *ring // nil without a ring
	withdrawn []Withdrawal
	settled   [][]bool // by exclusion and readout unit: nothing of it is under way there
	absences  []Absence
	returned  int // absences that every builder unit must go by before a new MEP is issued; 0: there is no such

	rus     []ruState
	bus     []buState
	active  int // BUs not excluded
	blocked int // active BUs without a free slot
	behind  int // active BUs left behind
	waiting Waiting

	counters *Counters
	depths   struct{ ready, cycles, window, again depth }
}

// record is the ledger's line for one MEP.
type record struct {
	slot    uint32
	cycle   uint32 // index into open, or noCycle
	bu      uint16
	attempt uint8
	state   recordState
}

type recordState uint8

const (
	unused recordState = iota
	inFlight
	toReissue
	final
)

type ruState struct {
	Update
	excluded   bool
	exclusions uint64
}

type buState struct {
	free     queue // of slots, first in first out as in the queues of TagNet-farm §III.B.4
	used     depth
	excluded bool
	lost     bool // excluded for good
	knows    int  // of the absences
	behind   bool // the others do not wait for it; see leaveBehind
	count    *BUCounters
}

// NewCore makes a scheduler in state Idle for one view.
func NewCore(cfg Config) (*Core, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Core{
		cfg:        cfg,
		places:     len(cfg.BUs),
		mask:       uint64(cfg.Window - 1),
		read:       cfg.First,
		next:       cfg.First,
		released:   cfg.First,
		limit:      NoMEP,
		short:      NoMEP,
		ledger:     make([]record, cfg.Window),
		again:      newQueue(cfg.mostUnfinished()),
		open:       make([]uint32, cfg.cycles()),
		freeCycles: make([]uint32, cfg.cycles()),
		rus:        make([]ruState, len(cfg.RUs)),
		bus:        make([]buState, len(cfg.BUs)),
		active:     len(cfg.BUs),
		waiting:    ForStart,
		counters: &Counters{
			WaitsFor: make([]uint64, numberOfWaiting),
			Refused:  make([]uint64, numberOfReasons),
		},
	}
	if cfg.End != 0 {
		c.limit = cfg.End
	}
	for i := range c.freeCycles {
		c.freeCycles[i] = uint32(i)
	}
	c.fillUnits()
	window := uint64(cfg.Window)
	c.depths.ready, c.depths.window, c.depths.again = newDepth(window), newDepth(window),
		newDepth(uint64(cfg.mostUnfinished()))
	c.depths.cycles = newDepth(uint64(len(c.open)))
	if cfg.Live {
		c.cuts = newCutter(&cfg)
	}
	c.arrange()
	return c, nil
}

// fillUnits puts every unit into the state in which it begins: no event is read, all slots are free.
func (c *Core) fillUnits() {
	for i := range c.rus {
		c.rus[i].Read = c.cfg.First
	}
	for j := range c.bus {
		c.bus[j].free = newQueue(c.cfg.Slots)
		c.bus[j].used = newDepth(uint64(c.cfg.credits()))
		c.bus[j].fill(c.cfg.credits())
		c.bus[j].count = &BUCounters{}
	}
}

// arrange makes what the rules ask for: groups of builder units, the ring of tags, and who chooses the builder unit.
func (c *Core) arrange() {
	cfg := &c.cfg
	if len(cfg.Rules.Groups) > 0 {
		c.groups.of, _ = membersOf("group", cfg.Rules.Groups, len(cfg.BUs)) // checked with the Config
		for _, group := range cfg.Rules.Groups {
			g := &tagnetv1.GroupRegister{}
			for _, bu := range group {
				g.Members = append(g.Members, cfg.BUs[bu])
			}
			c.groups.running = append(c.groups.running, g)
		}
	}
	turns, running := *cfg, &c.groups
	if cfg.Ring {
		// An event runs while its tag is under way: tokens go ahead of that, as they please.
		c.ring = newRing(cfg, &c.groups)
		c.counters.Tags = c.ring.count
		turns.Rules.Groups, running = nil, &groups{}
	}
	if turns.Loose || !turns.Rules.plain() {
		c.chooser = newChooser(&turns, c.bus, running)
	}
}

// fill makes all slots free.
func (b *buState) fill(slots int) {
	b.free.clear()
	for s := range slots {
		b.free.push(uint64(s))
	}
	b.used.set(0)
}

// Start leaves Idle: from now on Issue issues. It does nothing in any other state.
func (c *Core) Start() { c.started = true }

// Pause makes Issue issue nothing until Resume; outcomes are taken all the same. It is refused with NotNow when
// drained.
func (c *Core) Pause() error {
	if c.done() {
		return c.notNow("pause")
	}
	c.paused = true
	return nil
}

// Resume ends a pause. It is refused with NotNow when drained.
func (c *Core) Resume() error {
	if c.done() {
		return c.notNow("resume")
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
	if end == 0 && c.cuts != nil && c.started {
		return
	}
	c.limit = min(c.limit, max(end, c.next))
}

// abandon gives every MEP without outcome the outcome Abandoned and finishes. It returns how many they were. For the
// end of a run that cannot be drained: readout units may free everything, and later feedback is refused as
// AlreadyFinal.
func (c *Core) abandon() int {
	c.limit, c.draining, c.paused = c.next, true, false
	n := 0
	c.unfinished(func(k uint64, r *record) {
		if r.state == inFlight {
			c.leaveCycle(r)
		}
		c.finish(k, r, Abandoned)
		n++
	})
	c.again.clear()
	c.depths.again.set(0)
	c.release()
	if c.ring != nil {
		c.ring.abandon()
	}
	return n
}

// State tells where the scheduler stands.
func (c *Core) State() State {
	switch {
	case c.done():
		return Drained
	case !c.started:
		return Idle
	case c.paused:
		return Paused
	case c.draining || c.ended:
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

// beginning tells that the first cycle could be issued, but is not full, and that more MEPs will come.
func (c *Core) beginning() bool {
	n := c.fresh()
	return c.started && !c.cfg.Loose && c.nextCycle == 0 && !c.complete() && n > 0 && n < uint64(c.active)
}

// crowded tells that so much is in flight that it pays to wait for more outcomes before issuing again: what is issued
// at a time goes to every readout unit in a message, whose cost does not depend on what is in it. Since much is in
// flight, more outcomes will come. Only a view with room for many small MEPs is ever crowded.
func (c *Core) crowded() bool {
	room, used := c.room(), c.inFlight()
	if c.behind > 0 { // nobody waits for what they have
		room -= c.behind * c.cfg.credits()
		for j := range c.bus {
			if b := &c.bus[j]; b.behind {
				used -= int(b.used.Now)
			}
		}
	}
	return room-used < step(room) && (c.blocked == 0 || !c.idle())
}

// inFlight is the number of tokens without an outcome.
func (c *Core) inFlight() int { return c.InFlight() - c.again.len() }

// room is how many MEPs can be in flight.
func (c *Core) room() int { return min(c.cfg.LookAhead*c.places, c.cfg.Slots*c.active) }

// step is the share of room that is worth a message: an eighth leaves the units seven to work on meanwhile. Below 256
// tokens messages are few anyway, and latency counts: 0.
func step(room int) int {
	if room < 256 {
		return 0
	}
	return room / 8
}

// fresh is the number of MEPs that could be issued for the first time.
func (c *Core) fresh() uint64 {
	if to := min(c.read, c.limit); to > c.next && !c.unknown() {
		return to - c.next
	}
	return 0
}

// complete tells that no MEP will ever come beyond those that fresh counts now.
func (c *Core) complete() bool { return c.ended || c.read >= c.limit }

func (c *Core) done() bool {
	return (c.started || c.draining) && (c.next >= c.limit || c.ended && c.next >= c.read) && c.InFlight() == 0 &&
		(c.ring == nil || c.ring.empty())
}

// events of MEP k, as the readout units told them. They have told before k could be issued.
func (c *Core) events(k uint64) uint64 {
	if c.cuts != nil {
		return uint64(c.cuts.of(k, c.released).Events)
	}
	if k == c.short {
		return uint64(c.cfg.Packing) - uint64(c.missing)
	}
	return uint64(c.cfg.Packing)
}

func (c *Core) refuse(r Reason, unit, format string, args ...any) error {
	c.counters.Refused[r]++
	return &inputError{Reason: r, Unit: unit, Detail: fmt.Sprintf(format, args...)}
}

func (c *Core) notNow(op string) error {
	return c.refuse(NotNow, "scheduler", "cannot %s when %s", op, c.State())
}

// queue holds a bounded number of numbers, first in first out.
type queue struct {
	entry      []uint64 // that of number n at n mod their number
	head, tail uint64   // ever-growing; tail - head entries
}

func newQueue(capacity int) queue {
	n := 1
	for n < capacity {
		n <<= 1
	}
	return queue{entry: make([]uint64, n)}
}

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) clear() { q.head, q.tail = 0, 0 }

func (q *queue) push(v uint64) {
	q.entry[q.tail&uint64(len(q.entry)-1)] = v
	q.tail++
}

func (q *queue) pop() uint64 {
	v := q.entry[q.head&uint64(len(q.entry)-1)]
	q.head++
	return v
}

// saturate fits a count into an int.
func saturate(v uint64) int { return int(min(v, math.MaxInt)) }
