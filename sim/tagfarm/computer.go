package tagfarm

import (
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/sci"
)

// computer is a computing node: buffers, which the core keeps account of, and processors.
type computer struct {
	f      *farm
	index  int
	node   *sci.Node
	rng    *sim.Stream
	ready  *component.Queue[int64]
	busy   int
	victim bool // the next event lets it sleep

	events, bytes uint64
}

type (
	packetPlaced   computer // a packet is
	eventProcessed computer // a processor has done with an event
	feedback       computer
)

func newComputer(f *farm, i int, node *sci.Node) *computer {
	c := &computer{
		f:     f,
		index: i,
		node:  node,
		rng:   f.s.Stream(fmt.Sprint("computing node ", i)),
		ready: component.NewQueue[int64](f.s, 0),
	}
	node.To = c
	return c
}

// Receive: the first word of a packet is on the bus; the last one follows.
func (c *computer) Receive(p *sci.Packet) {
	clocks := sim.Time((p.Size+7)/8) * c.f.cfg.net.PCIClock
	c.bytes += uint64(p.Size)
	c.f.s.ScheduleAfter(clocks, (*packetPlaced)(c), p.ID, p.Piece)
}

func (m *packetPlaced) Handle(at, from int64) {
	c := (*computer)(m)
	e := &c.f.events[at]
	if int(from) < e.last {
		c.f.disorder++
	}
	e.last = int(from)
	if e.missing--; e.missing == 0 {
		c.built(at)
	}
}

// built: all packets are there.
func (c *computer) built(at int64) {
	f, now := c.f, c.f.s.Now()
	e := &f.events[at]
	latency := int64(now - e.began)
	switch {
	case e.second:
		f.long.Add(latency)
		f.tail.Add(latency)
	case f.cfg.again > 0 && c.rng.Float64() < f.cfg.again:
		f.recordFirst(e, latency)
		e.second = true
		e.missing, e.last = f.pieces(e), -1
		f.s.ScheduleAfter(f.cfg.compute.feedback, (*secondRequest)(f.sched), at, 0)
		return
	default:
		f.recordFirst(e, latency)
		f.full.Add(latency)
		f.tail.Add(latency)
	}
	f.built++
	c.events++
	c.ready.Put(at)
	c.work()
}

// recordFirst notes that the first part of an event is there.
func (f *farm) recordFirst(e *event, latency int64) {
	f.building.Add(latency)
	f.triggered.Add(int64(f.s.Now() - e.came))
}

// addBusy notes that one processor more or less works.
func (f *farm) addBusy(d int64) {
	f.busy.Add(f.s.Now(), d)
	all := int64(0)
	if f.busy.Value() == int64(len(f.cns)*f.cfg.compute.processors) {
		all = 1
	}
	f.allBusy.Set(f.s.Now(), all)
}

// work lets a processor take the next event.
func (c *computer) work() {
	p := &c.f.cfg.compute
	if c.busy >= p.processors || c.ready.Len() == 0 {
		return
	}
	c.busy++
	c.f.addBusy(1)
	d := p.least
	if p.mean > 0 {
		d += c.rng.Exp(p.mean)
	}
	asleep := int64(0)
	if c.victim {
		c.victim, asleep = false, 1
		d += p.suspend
	}
	c.f.s.ScheduleAfter(d, (*eventProcessed)(c), c.ready.Get(), asleep)
}

func (w *eventProcessed) Handle(at, asleep int64) {
	c := (*computer)(w)
	c.busy--
	c.f.addBusy(-1)
	if asleep > 0 {
		c.f.nextVictim(c.index)
	}
	(*feedback)(c).Handle(at, 0)
	c.work()
}

// Handle sends a feedback, or tries again if the card is full.
func (b *feedback) Handle(at, _ int64) {
	c := (*computer)(b)
	switch {
	case c.f.cfg.scheduler < 0:
		c.f.s.ScheduleAfter(c.f.cfg.compute.feedback, c.f.sched, at, 0)
	case !c.node.Send(c.f.cfg.scheduler, c.f.cfg.compute.size, at, 0):
		c.f.s.ScheduleAfter(c.f.clocks(c.f.cfg.bus.refused), b, at, 0)
	}
}

// nextVictim lets a node in the next column sleep; in a column the nodes take turns.
func (f *farm) nextVictim(index int) {
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
			f.cns[members[row%len(members)]].victim = true
			return
		}
	}
}
