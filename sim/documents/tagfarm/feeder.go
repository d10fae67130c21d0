package tagfarm

import (
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/documents/sci"
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
	rng   *sim.RandomStream
	track sim.Track

	queue            *component.Queue[int64]
	arrivalTimes     *component.Queue[sim.Time]
	busy             bool
	current          int64
	bytesLeft        int // of the current event
	burstBytes       int
	requestedAt      sim.Time // when the current burst requested the bus
	driverHoldsUntil sim.Time

	transfers, bytes   uint64
	bursts, dataClocks uint64 // clocks with data
	retries            uint64 // starts that the target refused
	passedUnserved     uint64 // messages passed on unserved
	driverAccesses     uint64 // the driver's accesses
	busWait            sim.Histogram
	busUse             sim.Level
	minBurstGap        sim.Time // between two bursts
}

type (
	busGranted feeder // the DMA engine has the bus
	firstWord  feeder // the target is ready
	burstOver  feeder
	driverBeat feeder // the driver takes the bus
)

func newFeeder(f *farm, i int, node *sci.Node) *feeder {
	n := &feeder{
		f:            f,
		index:        i,
		node:         node,
		rng:          f.s.RandomStream(fmt.Sprint("driver ", i)),
		track:        f.trace.Track(fmt.Sprint("feeding node ", i+1)),
		queue:        component.NewQueue[int64](f.s, 0),
		arrivalTimes: component.NewQueue[sim.Time](f.s, 0),
		minBurstGap:  sim.Forever,
		requestedAt:  -1,
	}
	if f.cfg.driver.period > 0 {
		f.s.ScheduleAfter(sim.Time(n.rng.Int64N(int64(f.cfg.driver.period))), (*driverBeat)(n), 0, 0)
	}
	return n
}

func (n *feeder) restart() {
	n.transfers, n.bytes, n.bursts, n.dataClocks, n.retries, n.passedUnserved, n.driverAccesses = 0, 0, 0, 0, 0, 0, 0
	n.busWait, n.minBurstGap = sim.Histogram{}, sim.Forever
	n.busUse.Restart(n.f.s.Now())
	n.queue.Length.Restart(n.f.s.Now())
}

// receiveMessage takes a message from the control ring.
func (n *feeder) receiveMessage(at int64) {
	e := &n.f.events[at]
	if n.f.cfg.scheduling.bypass {
		switch {
		case e.tag.Served.Contains(n.index):
			n.forward(at)
			return
		case (n.busy || n.queue.Len() > 0) && int(e.tag.Loop) < maxLoops:
			n.passedUnserved++
			n.forward(at)
			return
		}
	}
	if n.f.cfg.controlRing.forwardAtOnce {
		n.forward(at)
	}
	n.queue.Put(at)
	n.arrivalTimes.Put(n.f.s.Now())
	n.kick()
}

// kick begins the next message, if the node is idle.
func (n *feeder) kick() {
	if n.busy || n.queue.Len() == 0 {
		return
	}
	n.busy = true
	n.current = n.queue.Get()
	n.busWait.Add(int64(n.f.s.Now() - n.arrivalTimes.Get()))
	n.bytesLeft = n.f.events[n.current].partBytes[n.index]
	if n.bytesLeft == 0 {
		n.endTransfer()
		return
	}
	n.request()
}

// request requests the bus.
func (n *feeder) request() {
	at := nextEdge(n.f.s.Now(), n.f.cfg.bus.clock)
	if e := &n.f.events[n.current]; e.firstBurstAt < 0 {
		e.firstBurstAt = at
	}
	n.f.s.ScheduleAt(at+n.f.clocks(n.f.cfg.bus.grantClocks), (*busGranted)(n), 0, 0)
}

func (g *busGranted) Handle(int64, int64) {
	n := (*feeder)(g)
	now, b := n.f.s.Now(), &n.f.cfg.bus
	if now < n.driverHoldsUntil {
		n.retry(max(n.driverHoldsUntil, now+n.f.clocks(b.refusedClocks)))
		return
	}
	if n.requestedAt >= 0 {
		n.minBurstGap = min(n.minBurstGap, now-n.requestedAt)
	}
	n.requestedAt = now
	n.busUse.Set(now, 1)
	n.f.s.ScheduleAfter(n.f.clocks(b.addressClocks+b.setUpClocks), (*firstWord)(n), 0, 0)
}

// retry counts a start that the target refused, and requests the bus again later.
func (n *feeder) retry(again sim.Time) {
	n.retries++
	n.busUse.Set(n.f.s.Now(), 0)
	n.f.trace.Instant(n.track, "retry", n.f.s.Now(), n.current)
	n.f.s.ScheduleAt(nextEdge(again, n.f.cfg.bus.clock)+n.f.clocks(n.f.cfg.bus.grantClocks), (*busGranted)(n), 0, 0)
}

func (w *firstWord) Handle(int64, int64) {
	n := (*feeder)(w)
	b := &n.f.cfg.bus
	e := &n.f.events[n.current]
	n.burstBytes = min(n.bytesLeft, b.burstBytes)
	words := n.burstBytes
	if b.fullBursts {
		words = b.burstBytes
	}
	if !n.node.Send(n.f.cfg.computers[e.bu], words, n.current, int64(n.index)) {
		n.requestedAt = -1
		n.retry(n.f.s.Now() + n.f.clocks(max(0, b.refusedClocks-b.addressClocks-b.setUpClocks)))
		return
	}
	clocks := (words + 7) / 8
	n.dataClocks += uint64(clocks)
	n.f.s.ScheduleAfter(n.f.clocks(clocks), (*burstOver)(n), 0, 0)
}

func (o *burstOver) Handle(int64, int64) {
	n := (*feeder)(o)
	now := n.f.s.Now()
	n.busUse.Set(now, 0)
	n.bursts++
	n.bytes += uint64(n.burstBytes)
	n.f.trace.Span(n.track, "burst", n.requestedAt, now, n.current)
	if n.bytesLeft -= n.burstBytes; n.bytesLeft > 0 {
		n.request()
		return
	}
	n.endTransfer()
}

// endTransfer ends the transfer, and passes on the right to send.
func (n *feeder) endTransfer() {
	n.transfers++
	n.busy = false
	n.f.events[n.current].tag.Served.Add(n.index)
	if !n.f.cfg.controlRing.forwardAtOnce {
		n.forward(n.current)
	}
	n.kick()
}

// forward writes a message into the transmit FIFO.
func (n *feeder) forward(at int64) {
	n.f.messageLatency[n.index].Add(int64(n.f.s.Now() - n.f.events[at].sent))
	n.f.hops[n.index+1].send(at)
}

func (h *driverBeat) Handle(int64, int64) {
	n := (*feeder)(h)
	n.driverAccesses++
	n.driverHoldsUntil = n.f.s.Now() + n.f.cfg.driver.gap
	n.f.s.ScheduleAfter(n.f.cfg.driver.period, h, 0, 0)
}

// busUtilization is the share of time in which the bus is not idle.
func (n *feeder) busUtilization() float64 {
	driver := n.f.clocks(int(n.driverAccesses) * n.f.cfg.driver.gapBusyClocks)
	return n.busUse.Mean(n.f.s.Now()) + driver.Seconds()/n.f.measuredTime().Seconds()
}

// hop is a segment of the control ring.
type hop struct {
	f                *farm
	destination      int
	linkFreeAt       sim.Time // when the link is idle
	messagesInFlight *component.Queue[int64]
}

// send sends a message from the transmit FIFO.
func (h *hop) send(at int64) {
	r := &h.f.cfg.controlRing
	start := max(nextEdge(h.f.s.Now(), r.wordTime), h.linkFreeAt)
	h.linkFreeAt = start + sim.Time(r.words)*r.wordTime
	h.messagesInFlight.Put(at)
	h.f.s.ScheduleAt(h.linkFreeAt+r.wireDelay+r.processing, h, 0, 0)
}

// Handle: the first message is at the other end.
func (h *hop) Handle(int64, int64) {
	at := h.messagesInFlight.Get()
	if h.destination < len(h.f.feeders) {
		h.f.feeders[h.destination].receiveMessage(at)
		return
	}
	h.f.sched.messageReturned(at)
}
