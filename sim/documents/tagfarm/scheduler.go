package tagfarm

import (
	"cmp"
	"fmt"
	"slices"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/documents/sci"
	tagcore "ringlet/tagnet/core"
)

// maxLoops is how often a message may go round unserved, as in the core.
const maxLoops = tagcore.MaxLoops

// scheduler is the scheduling node: the product's core, with the clocks of the document's scheduler.
type scheduler struct {
	f     *farm
	rng   *sim.RandomStream
	core  *tagcore.Allocator // nil with perColumn
	batch tagcore.Batch
	tags  []tagcore.Tag

	tokens []tagcore.Token // of a cycle

	triggers        uint64
	waitingTriggers *component.Queue[sim.Time] // when triggers without a destination came
	outgoing        *component.Queue[int64]    // messages that wait for their clock
	fifoFreeAt      sim.Time                   // when the transmit FIFO can take a message
	eventByMEP      map[uint64]int64           // with the core's tag ring: the event of a token's MEP

	eventsIssued     uint64
	sameColumnAgain  uint64 // events to the same column as the one before
	lastColumn       int    // column of the last event
	columnOf         []int  // by builder unit
	messagesReturned uint64
	triggerWait      sim.Histogram // from a trigger until its message is in the transmit FIFO
	latencyClocks    sim.Histogram // the same for triggers that find a buffer, in clocks
	coreRefusals     uint64        // inputs that the core refused: none, unless the model is wrong
}

type (
	triggerArrived scheduler
	dispatchDue    scheduler
	secondRequest  scheduler
)

func newScheduler(f *farm) *scheduler {
	s := &scheduler{
		f:               f,
		rng:             f.s.RandomStream("events"),
		waitingTriggers: component.NewQueue[sim.Time](f.s, 0),
		outgoing:        component.NewQueue[int64](f.s, 0),
		eventByMEP:      map[uint64]int64{},
		columnOf:        make([]int, len(f.cfg.computers)),
		lastColumn:      -1,
	}
	for c, members := range f.cfg.columns {
		for _, bu := range members {
			s.columnOf[bu] = c
		}
	}
	if f.cfg.scheduling.perColumn > 0 {
		return s
	}
	cfg := tagcore.Config{
		Slots:         f.cfg.scheduling.slots,
		Packing:       1,
		NoSlotPolicy:  f.cfg.scheduling.policy,
		Rules:         tagcore.Rules{TurnSets: f.cfg.columns},
		Loose:         true,
		TagRing:       f.cfg.scheduling.bypass,
		BypassBusyRUs: f.cfg.scheduling.bypass,
	}
	for i := range f.cfg.feeders {
		cfg.RUs = append(cfg.RUs, fmt.Sprint("FN", i+1))
	}
	for i := range f.cfg.computers {
		cfg.BUs = append(cfg.BUs, fmt.Sprint("CN", i+1))
	}
	core, err := tagcore.NewAllocator(cfg)
	if err != nil {
		panic(fmt.Sprintf("tagfarm: the core refuses the farm: %v", err)) // its shape was checked with the parameters
	}
	core.Start()
	s.core = core
	return s
}

// Handle: an event comes.
func (t *triggerArrived) Handle(int64, int64) {
	s := (*scheduler)(t)
	now := s.f.s.Now()
	if now+s.f.cfg.period <= s.f.cfg.triggersEnd {
		s.f.s.ScheduleAfter(s.f.cfg.period, t, 0, 0)
	}
	s.triggers++
	s.waitingTriggers.Put(now)
	if s.core != nil {
		for ru := range s.f.feeders {
			s.countRefusal(s.core.ApplyUpdate(ru, tagcore.Update{ReadBelow: s.triggers, Events: s.triggers}))
		}
	}
	s.issue()
}

// countRefusal counts inputs that the core refused.
func (s *scheduler) countRefusal(err error) {
	if err != nil {
		s.coreRefusals++
	}
}

// issue has the core choose, and sends its tokens.
func (s *scheduler) issue() {
	if s.core == nil {
		s.issueByColumn()
		return
	}
	s.batch.Reset(s.core.NextCycle(), s.core.PlacesPerCycle())
	s.core.Issue(&s.batch)
	for cycle := range s.batch.Len() {
		s.tokens = s.tokens[:0]
		for place := range s.batch.PlacesPerCycle {
			if t, ok := s.batch.Token(cycle, place); ok {
				s.tokens = append(s.tokens, t)
			}
		}
		s.cycle()
	}
	s.launch()
}

// cycle sends the tokens of a cycle in the order of their events.
func (s *scheduler) cycle() {
	slices.SortFunc(s.tokens, func(a, b tagcore.Token) int { return cmp.Compare(a.MEP, b.MEP) })
	for _, t := range s.tokens {
		at := s.f.addEvent(t.MEP, int(t.BU), t.Slot, t.Attempt)
		s.countColumn(int(t.BU))
		if s.f.cfg.scheduling.bypass {
			s.eventByMEP[t.MEP] = at
			continue
		}
		s.send(at, s.waitingTriggers.Get())
	}
}

// launch sends the tags that the core's tag ring launches.
func (s *scheduler) launch() {
	if !s.f.cfg.scheduling.bypass {
		return
	}
	s.tags = s.core.LaunchTags(s.tags[:0])
	for _, t := range s.tags {
		at := s.eventByMEP[t.MEP]
		came := s.f.s.Now()
		if t.Loop == 0 {
			came = s.waitingTriggers.Get()
		}
		s.f.events[at].tag = t
		s.send(at, came)
	}
}

// issueByColumn is the broken order of TagNet-farm §IV.E.2: each column in turn gets perColumn events, whether it has
// free buffers or not. Each column's queue has all buffers of its first node, then all of the next, as the nodes
// announce them, and is never empty.
func (s *scheduler) issueByColumn() {
	n, columns, row := int(s.eventsIssued), s.f.cfg.columns, s.f.cfg.scheduling.perColumn
	members := columns[n/row%len(columns)]
	used := n/(row*len(columns))*row + n%row // of this column's queue
	bu := members[used/s.f.cfg.scheduling.slots%len(members)]
	s.countColumn(bu)
	s.send(s.f.addEvent(uint64(n), bu, 0, 1), s.waitingTriggers.Get())
}

// countColumn counts an event by its column.
func (s *scheduler) countColumn(bu int) {
	s.eventsIssued++
	if s.columnOf[bu] == s.lastColumn {
		s.sameColumnAgain++
	}
	s.lastColumn = s.columnOf[bu]
}

// send writes a message into the transmit FIFO at the next clock that is allowed.
func (s *scheduler) send(at int64, came sim.Time) {
	o := &s.f.cfg.scheduling
	now := s.f.s.Now()
	t := max(nextEdge(now, o.clock)+sim.Time(o.latencyClocks)*o.clock, s.fifoFreeAt)
	s.fifoFreeAt = t + sim.Time(o.selectionClocks)*o.clock
	s.triggerWait.Add(int64(t - came))
	if came == now && o.clock > 0 {
		s.latencyClocks.Add(int64((t - nextEdge(now, o.clock)) / o.clock))
	}
	if e := &s.f.events[at]; e.tag.Loop == 0 && !e.withSecondPart {
		e.triggeredAt = came
	}
	s.outgoing.Put(at)
	s.f.s.ScheduleAt(t, (*dispatchDue)(s), 0, 0)
}

func (d *dispatchDue) Handle(int64, int64) {
	s := (*scheduler)(d)
	at := s.outgoing.Get()
	if e := &s.f.events[at]; e.tag.Loop == 0 && !e.withSecondPart {
		e.sent = s.f.s.Now()
	}
	s.f.hops[0].send(at)
}

// messageReturned takes a message that has gone round.
func (s *scheduler) messageReturned(at int64) {
	s.messagesReturned++
	e := &s.f.events[at]
	if !s.f.cfg.scheduling.bypass {
		s.f.releaseEvent(at)
		return
	}
	complete := e.tag.Served.Len() == len(s.f.feeders)
	s.countRefusal(s.core.ReturnTag(len(s.f.feeders)-1, &e.tag))
	if complete {
		delete(s.eventByMEP, e.mep)
		s.f.releaseEvent(at)
	}
	s.issue()
}

// Handle sends the message of an event's second part: to the same buffer, so the core is not asked.
func (a *secondRequest) Handle(at, _ int64) {
	a.f.events[at].holders++
	(*scheduler)(a).send(at, a.f.s.Now())
}

// Receive takes a feedback from the network.
func (s *scheduler) Receive(p *sci.Packet) { s.Handle(p.ID, 0) }

// Handle handles a feedback.
func (s *scheduler) Handle(at, _ int64) {
	e := &s.f.events[at]
	if s.f.cfg.watchedBU < 0 || s.f.cfg.watchedBU == e.bu {
		s.f.systemLatency.Add(int64(s.f.s.Now() - e.sent))
	}
	s.f.eventsInside.Add(s.f.s.Now(), -1)
	s.f.returned++
	if s.core != nil {
		s.countRefusal(s.core.ApplyFeedback(e.bu, tagcore.Feedback{
			MEP:     e.mep,
			Slot:    e.slot,
			Events:  1,
			Attempt: e.attempt,
			Outcome: tagcore.Built,
		}))
	}
	s.f.releaseEvent(at)
	if s.core != nil {
		s.issue()
	}
}
