package tagfarm

import (
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/sci"
)

// feeder is a feeding node: a queue of messages, and a DMA engine on a PCI bus.
//
//	message ─► queue ─► request the bus ─► granted ─► address, set-up ─► data ─► (next burst) ─► forward
//	                          ▲               │                │
//	                          └── refused ◄───┴── card full ◄──┘
type feeder struct {
	f     *farm
	index int
	node  *sci.Node
	rng   *sim.Stream
	track sim.Track

	queue     *component.Queue[int64]
	came      *component.Queue[sim.Time]
	working   bool
	current   int64
	remaining int      // bytes of the current event
	burst     int      // bytes of the current burst
	start     sim.Time // of the request for the current burst
	held      sim.Time // the driver holds the bus until then

	transfers, bytes uint64
	bursts, data     uint64 // data: clocks
	retries          uint64 // starts that the target refused
	passed           uint64 // messages that went on unserved
	accesses         uint64 // of the driver
	wait             sim.Histogram
	bus              sim.Level
	least            sim.Time // between two bursts
}

type (
	granted   feeder // the bus is the DMA engine's
	firstWord feeder // the target is set up
	burstOver feeder
	heartbeat feeder // of the driver
)

func newFeeder(f *farm, i int, node *sci.Node) *feeder {
	n := &feeder{
		f:     f,
		index: i,
		node:  node,
		rng:   f.s.Stream(fmt.Sprint("driver ", i)),
		track: f.trace.Track(fmt.Sprint("feeding node ", i+1)),
		queue: component.NewQueue[int64](f.s, 0),
		came:  component.NewQueue[sim.Time](f.s, 0),
		least: sim.Forever,
		start: -1,
	}
	if f.cfg.driver.every > 0 {
		f.s.ScheduleAfter(sim.Time(n.rng.Int64N(int64(f.cfg.driver.every))), (*heartbeat)(n), 0, 0)
	}
	return n
}

func (n *feeder) restart() {
	n.transfers, n.bytes, n.bursts, n.data, n.retries, n.passed, n.accesses = 0, 0, 0, 0, 0, 0, 0
	n.wait, n.least = sim.Histogram{}, sim.Forever
	n.bus.Restart(n.f.s.Now())
	n.queue.Length.Restart(n.f.s.Now())
}

// receiveMessage takes one from the control ring.
func (n *feeder) receiveMessage(at int64) {
	e := &n.f.events[at]
	if n.f.cfg.order.bypass {
		switch {
		case e.tag.Served.Contains(n.index):
			n.forward(at)
			return
		case (n.working || n.queue.Len() > 0) && int(e.tag.Loop) < maxLoops:
			n.passed++
			n.forward(at)
			return
		}
	}
	if n.f.cfg.controlRing.atOnce {
		n.forward(at)
	}
	n.queue.Put(at)
	n.came.Put(n.f.s.Now())
	n.kick()
}

// kick begins with the next message.
func (n *feeder) kick() {
	if n.working || n.queue.Len() == 0 {
		return
	}
	n.working = true
	n.current = n.queue.Get()
	n.wait.Add(int64(n.f.s.Now() - n.came.Get()))
	n.remaining = n.f.events[n.current].bytes[n.index]
	if n.remaining == 0 {
		n.done()
		return
	}
	n.request()
}

// request asks for the bus.
func (n *feeder) request() {
	at := edge(n.f.s.Now(), n.f.cfg.bus.clock)
	if e := &n.f.events[n.current]; e.began < 0 {
		e.began = at
	}
	n.f.s.ScheduleAt(at+n.f.clocks(n.f.cfg.bus.grant), (*granted)(n), 0, 0)
}

func (g *granted) Handle(int64, int64) {
	n := (*feeder)(g)
	now, b := n.f.s.Now(), &n.f.cfg.bus
	if now < n.held {
		n.retry(max(n.held, now+n.f.clocks(b.refused)))
		return
	}
	if n.start >= 0 {
		n.least = min(n.least, now-n.start)
	}
	n.start = now
	n.bus.Set(now, 1)
	n.f.s.ScheduleAfter(n.f.clocks(b.address+b.setup), (*firstWord)(n), 0, 0)
}

// retry: the target refuses the start; the engine asks again at a time.
func (n *feeder) retry(again sim.Time) {
	n.retries++
	n.bus.Set(n.f.s.Now(), 0)
	n.f.trace.Instant(n.track, "retry", n.f.s.Now(), n.current)
	n.f.s.ScheduleAt(edge(again, n.f.cfg.bus.clock)+n.f.clocks(n.f.cfg.bus.grant), (*granted)(n), 0, 0)
}

func (w *firstWord) Handle(int64, int64) {
	n := (*feeder)(w)
	b := &n.f.cfg.bus
	e := &n.f.events[n.current]
	n.burst = min(n.remaining, b.piece)
	words := n.burst
	if b.fullBursts {
		words = b.piece
	}
	if !n.node.Send(n.f.cfg.computers[e.bu], words, n.current, int64(n.index)) {
		n.start = -1
		n.retry(n.f.s.Now() + n.f.clocks(max(0, b.refused-b.address-b.setup)))
		return
	}
	clocks := (words + 7) / 8
	n.data += uint64(clocks)
	n.f.s.ScheduleAfter(n.f.clocks(clocks), (*burstOver)(n), 0, 0)
}

func (o *burstOver) Handle(int64, int64) {
	n := (*feeder)(o)
	now := n.f.s.Now()
	n.bus.Set(now, 0)
	n.bursts++
	n.bytes += uint64(n.burst)
	n.f.trace.Span(n.track, "burst", n.start, now, n.current)
	if n.remaining -= n.burst; n.remaining > 0 {
		n.request()
		return
	}
	n.done()
}

// done: the transfer is over, and the right to send goes on.
func (n *feeder) done() {
	n.transfers++
	n.working = false
	n.f.events[n.current].tag.Served.Add(n.index)
	if !n.f.cfg.controlRing.atOnce {
		n.forward(n.current)
	}
	n.kick()
}

// forward writes a message into the transmit FIFO.
func (n *feeder) forward(at int64) {
	n.f.latency[n.index].Add(int64(n.f.s.Now() - n.f.events[at].sent))
	n.f.hops[n.index+1].send(at)
}

func (h *heartbeat) Handle(int64, int64) {
	n := (*feeder)(h)
	n.accesses++
	n.held = n.f.s.Now() + n.f.cfg.driver.gap
	n.f.s.ScheduleAfter(n.f.cfg.driver.every, h, 0, 0)
}

// use is the share of the time in which the bus is not idle.
func (n *feeder) use() float64 {
	driver := n.f.clocks(int(n.accesses) * n.f.cfg.driver.clocks)
	return n.bus.Mean(n.f.s.Now()) + driver.Seconds()/n.f.measured().Seconds()
}

// hop is a segment of the control ring.
type hop struct {
	f      *farm
	to     int
	free   sim.Time // when the link has sent what it has
	flying *component.Queue[int64]
}

// send takes a message from the transmit FIFO.
func (h *hop) send(at int64) {
	r := &h.f.cfg.controlRing
	start := max(edge(h.f.s.Now(), r.strobe), h.free)
	h.free = start + sim.Time(r.words)*r.strobe
	h.flying.Put(at)
	h.f.s.ScheduleAt(h.free+r.wire+r.processing, h, 0, 0)
}

// Handle: the first message is at the other end.
func (h *hop) Handle(int64, int64) {
	at := h.flying.Get()
	if h.to < len(h.f.fns) {
		h.f.fns[h.to].receiveMessage(at)
		return
	}
	h.f.sched.messageReturned(at)
}
