package tagfarm

import (
	"cmp"
	"fmt"
	"slices"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/sci"
	"ringlet/tagnet"
)

// maxLoops is how often a message may go round unserved, as the core has it.
const maxLoops = tagnet.MaxLoops

// scheduler is the scheduling node: the product's core, and the clocks of the document's.
type scheduler struct {
	f     *farm
	rng   *sim.Stream
	core  *tagnet.Core // nil where nobody chooses
	batch tagnet.Batch
	tags  []tagnet.Tag

	tokens []tagnet.Token // of a cycle

	triggers uint64
	waiting  *component.Queue[sim.Time] // triggers without a destination, and when they came
	outgoing *component.Queue[int64]    // messages that wait for their clock
	next     sim.Time                   // the transmit FIFO takes no message before
	placed   map[uint64]int64           // with the core's tag ring: the event of a token, by its MEP

	issued    uint64
	sameAgain uint64 // events to the column of the one before
	column    int    // of the last event
	columnOf  []int  // column of each builder unit
	returns   uint64
	wait      sim.Histogram // of a trigger, until its message is in the transmit FIFO
	latency   sim.Histogram // the same of triggers that find a buffer, in clocks
	refused   uint64        // by the core: none, unless the model is wrong
}

type (
	trigger       scheduler
	dispatch      scheduler
	secondRequest scheduler
)

func newScheduler(f *farm) *scheduler {
	s := &scheduler{
		f:        f,
		rng:      f.s.Stream("events"),
		waiting:  component.NewQueue[sim.Time](f.s, 0),
		outgoing: component.NewQueue[int64](f.s, 0),
		placed:   map[uint64]int64{},
		columnOf: make([]int, len(f.cfg.computers)),
		column:   -1,
	}
	for c, members := range f.cfg.columns {
		for _, bu := range members {
			s.columnOf[bu] = c
		}
	}
	if f.cfg.order.perColumn > 0 {
		return s
	}
	cfg := tagnet.Config{
		Slots:   f.cfg.order.slots,
		Packing: 1,
		Policy:  f.cfg.order.policy,
		Rules:   tagnet.Rules{TurnSets: f.cfg.columns},
		Loose:   true,
		TagRing: f.cfg.order.bypass,
		Bypass:  f.cfg.order.bypass,
	}
	for i := range f.cfg.feeders {
		cfg.RUs = append(cfg.RUs, fmt.Sprint("FN", i+1))
	}
	for i := range f.cfg.computers {
		cfg.BUs = append(cfg.BUs, fmt.Sprint("CN", i+1))
	}
	core, err := tagnet.NewCore(cfg)
	if err != nil {
		panic(fmt.Sprintf("tagfarm: the farm is no view: %v", err)) // its shape was checked with the parameters
	}
	core.Start()
	s.core = core
	return s
}

// Handle: an event comes.
func (t *trigger) Handle(int64, int64) {
	s := (*scheduler)(t)
	now := s.f.s.Now()
	if now+s.f.cfg.period <= s.f.cfg.until {
		s.f.s.ScheduleAfter(s.f.cfg.period, t, 0, 0)
	}
	s.triggers++
	s.waiting.Put(now)
	if s.core != nil {
		for ru := range s.f.fns {
			s.check(s.core.ApplyUpdate(ru, tagnet.Update{Read: s.triggers, Events: s.triggers}))
		}
	}
	s.issue()
}

// check counts what the core refuses.
func (s *scheduler) check(err error) {
	if err != nil {
		s.refused++
	}
}

// issue lets the core choose, and sends what it chose.
func (s *scheduler) issue() {
	if s.core == nil {
		s.turn()
		return
	}
	s.batch.Reset(s.core.NextCycle(), s.core.Places())
	s.core.Issue(&s.batch)
	for cycle := range s.batch.Len() {
		s.tokens = s.tokens[:0]
		for place := range s.batch.Places {
			if t, ok := s.batch.Token(cycle, place); ok {
				s.tokens = append(s.tokens, t)
			}
		}
		s.cycle()
	}
	s.launch()
}

// cycle sends the tokens of a cycle in the order in which the core chose: that of the events.
func (s *scheduler) cycle() {
	slices.SortFunc(s.tokens, func(a, b tagnet.Token) int { return cmp.Compare(a.MEP, b.MEP) })
	for _, t := range s.tokens {
		at := s.f.open(t.MEP, int(t.BU), t.Slot, t.Attempt)
		s.count(int(t.BU))
		if s.f.cfg.order.bypass {
			s.placed[t.MEP] = at
			continue
		}
		s.send(at, s.waiting.Get())
	}
}

// launch sends the tags that the core's tag ring has.
func (s *scheduler) launch() {
	if !s.f.cfg.order.bypass {
		return
	}
	s.tags = s.core.LaunchTags(s.tags[:0])
	for _, t := range s.tags {
		at := s.placed[t.MEP]
		came := s.f.s.Now()
		if t.Loop == 0 {
			came = s.waiting.Get()
		}
		s.f.events[at].tag = t
		s.send(at, came)
	}
}

// turn is the broken order of TagNet-farm §IV.E.2: so many events to a column, whatever it has free. Each column's
// queue holds all buffers of its first node, then all of the next, as the nodes announce them, and is never empty.
func (s *scheduler) turn() {
	n, columns, row := int(s.issued), s.f.cfg.columns, s.f.cfg.order.perColumn
	members := columns[n/row%len(columns)]
	used := n/(row*len(columns))*row + n%row // of this column's queue
	bu := members[used/s.f.cfg.order.slots%len(members)]
	s.count(bu)
	s.send(s.f.open(uint64(n), bu, 0, 1), s.waiting.Get())
}

// count notes where an event goes.
func (s *scheduler) count(bu int) {
	s.issued++
	if s.columnOf[bu] == s.column {
		s.sameAgain++
	}
	s.column = s.columnOf[bu]
}

// send writes a message into the transmit FIFO at the next clock that may.
func (s *scheduler) send(at int64, came sim.Time) {
	o := &s.f.cfg.order
	now := s.f.s.Now()
	t := max(edge(now, o.clock)+sim.Time(o.latency)*o.clock, s.next)
	s.next = t + sim.Time(o.selection)*o.clock
	s.wait.Add(int64(t - came))
	if came == now && o.clock > 0 {
		s.latency.Add(int64((t - edge(now, o.clock)) / o.clock))
	}
	if e := &s.f.events[at]; e.tag.Loop == 0 && !e.second {
		e.came = came
	}
	s.outgoing.Put(at)
	s.f.s.ScheduleAt(t, (*dispatch)(s), 0, 0)
}

func (d *dispatch) Handle(int64, int64) {
	s := (*scheduler)(d)
	at := s.outgoing.Get()
	if e := &s.f.events[at]; e.tag.Loop == 0 && !e.second {
		e.sent = s.f.s.Now()
	}
	s.f.hops[0].send(at)
}

// messageReturned takes a message that has come round.
func (s *scheduler) messageReturned(at int64) {
	s.returns++
	e := &s.f.events[at]
	if !s.f.cfg.order.bypass {
		s.f.release(at)
		return
	}
	complete := e.tag.Served.Len() == len(s.f.fns)
	s.check(s.core.ReturnTag(len(s.f.fns)-1, &e.tag))
	if complete {
		delete(s.placed, e.mep)
		s.f.release(at)
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

// Handle takes a feedback.
func (s *scheduler) Handle(at, _ int64) {
	e := &s.f.events[at]
	if s.f.cfg.watch < 0 || s.f.cfg.watch == e.bu {
		s.f.system.Add(int64(s.f.s.Now() - e.sent))
	}
	s.f.inside.Add(s.f.s.Now(), -1)
	s.f.returned++
	if s.core != nil {
		s.check(s.core.ApplyFeedback(e.bu, tagnet.Feedback{
			MEP:     e.mep,
			Slot:    e.slot,
			Events:  1,
			Attempt: e.attempt,
			Outcome: tagnet.Built,
		}))
	}
	s.f.release(at)
	if s.core != nil {
		s.issue()
	}
}
