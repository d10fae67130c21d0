package tagfarm

import (
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/documents/sci"
)

// computer is a computing node: buffers, which the core accounts for, and processors.
type computer struct {
	f              *farm
	index          int
	node           *sci.Node
	rng            *sim.RandomStream
	ready          *component.Queue[int64]
	busyProcessors int
	sleepsNext     bool // its next event makes it sleep

	bytes uint64
}

type (
	packetPlaced   computer // a packet is in memory
	eventProcessed computer // a processor is done with an event
	feedbackDue    computer
)

func newComputer(f *farm, i int, node *sci.Node) *computer {
	c := &computer{
		f:     f,
		index: i,
		node:  node,
		rng:   f.s.RandomStream(fmt.Sprint("computing node ", i)),
		ready: component.NewQueue[int64](f.s, 0),
	}
	node.Receiver = c
	return c
}

// Receive: the first word of a packet is on the bus; the others follow.
func (c *computer) Receive(p *sci.Packet) {
	clocks := sim.Time((p.Size+7)/8) * c.f.cfg.net.PCIClock
	c.bytes += uint64(p.Size)
	c.f.s.ScheduleAfter(clocks, (*packetPlaced)(c), p.ID, p.Piece)
}

func (m *packetPlaced) Handle(at, from int64) {
	c := (*computer)(m)
	e := &c.f.events[at]
	if int(from) < e.lastFeeder {
		c.f.packetsOutOfOrder++
	}
	e.lastFeeder = int(from)
	if e.missing--; e.missing == 0 {
		c.eventComplete(at)
	}
}

// eventComplete handles an event whose packets are all there.
func (c *computer) eventComplete(at int64) {
	f, now := c.f, c.f.s.Now()
	e := &f.events[at]
	latency := int64(now - e.firstBurstAt)
	switch {
	case e.withSecondPart:
		f.twoPartLatency.Add(latency)
		f.allLatency.Add(latency)
	case f.cfg.secondPartShare > 0 && c.rng.Float64() < f.cfg.secondPartShare:
		f.recordFirst(e, latency)
		e.withSecondPart = true
		e.missing, e.lastFeeder = f.packetCount(e), -1
		f.s.ScheduleAfter(f.cfg.compute.feedbackDelay, (*secondRequest)(f.sched), at, 0)
		return
	default:
		f.recordFirst(e, latency)
		f.onePartLatency.Add(latency)
		f.allLatency.Add(latency)
	}
	f.built++
	c.ready.Put(at)
	c.startWork()
}

// recordFirst records the latency of the first part of an event.
func (f *farm) recordFirst(e *event, latency int64) {
	f.burstToFirstPart.Add(latency)
	f.triggerToFirstPart.Add(int64(f.s.Now() - e.triggeredAt))
}

// addBusy changes the number of busy processors.
func (f *farm) addBusy(d int64) {
	f.busyProcessors.Add(f.s.Now(), d)
	all := int64(0)
	if f.busyProcessors.Value() == int64(len(f.computers)*f.cfg.compute.processors) {
		all = 1
	}
	f.allBusy.Set(f.s.Now(), all)
}

// startWork gives the next event to a processor.
func (c *computer) startWork() {
	p := &c.f.cfg.compute
	if c.busyProcessors >= p.processors || c.ready.Len() == 0 {
		return
	}
	c.busyProcessors++
	c.f.addBusy(1)
	d := p.minFeedbackTime
	if p.meanWork > 0 {
		d += c.rng.Exp(p.meanWork)
	}
	asleep := int64(0)
	if c.sleepsNext {
		c.sleepsNext, asleep = false, 1
		d += p.sleepTime
	}
	c.f.s.ScheduleAfter(d, (*eventProcessed)(c), c.ready.Get(), asleep)
}

func (w *eventProcessed) Handle(at, asleep int64) {
	c := (*computer)(w)
	c.busyProcessors--
	c.f.addBusy(-1)
	if asleep > 0 {
		c.f.chooseNextSleeper(c.index)
	}
	(*feedbackDue)(c).Handle(at, 0)
	c.startWork()
}

// Handle sends a feedback, or tries again later if the card is full.
func (b *feedbackDue) Handle(at, _ int64) {
	c := (*computer)(b)
	switch {
	case c.f.cfg.scheduler < 0:
		c.f.s.ScheduleAfter(c.f.cfg.compute.feedbackDelay, c.f.sched, at, 0)
	case !c.node.Send(c.f.cfg.scheduler, c.f.cfg.compute.feedbackBytes, at, 0):
		c.f.s.ScheduleAfter(c.f.clocks(c.f.cfg.bus.refusedClocks), b, at, 0)
	}
}

// chooseNextSleeper has a node in the next column sleep next; the nodes of a column take turns.
func (f *farm) chooseNextSleeper(index int) {
	columns := f.cfg.columns
	for c, members := range columns {
		for row, bu := range members {
			if bu != index {
				continue
			}
			if c++; c == len(columns) {
				c, row = 0, row+1
			}
			members = columns[c]
			f.computers[members[row%len(members)]].sleepsNext = true
			return
		}
	}
}
