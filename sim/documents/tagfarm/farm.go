package tagfarm

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/documents/sci"
	"ringlet/tagnet/core"
)

// config is what a farm is made of and how it is driven.
type config struct {
	bus         bus
	driver      driver
	controlRing controlRing
	scheduling  schedulingConfig
	compute     compute

	// The network and who stands where in it.

	net       sci.Config
	size      []int   // of the torus
	feeders   []int   // nodes, in the order of the control ring
	computers []int   // nodes, in the order of the builder units
	columns   [][]int // builder units that share a column
	watchedBU int     // builder unit of the system latency; -1: all
	scheduler int     // node; -1: it is not in the torus, and feedback takes compute.feedbackDelay

	// The input.

	period      sim.Time // between triggers
	warmUpEnd   sim.Time // statistics begin here
	triggersEnd sim.Time // triggers end here
	// of each feeding node's part of an event; the farm does not keep the slice
	drawPartBytes   func(r *sim.RandomStream) []int
	secondPartShare float64 // share of events that ask for a second part, as large as the first
}

// bus is the PCI bus of a feeding node, in clocks.
type bus struct {
	clock         sim.Time
	grantClocks   int // to get the bus
	addressClocks int
	setUpClocks   int // of the target
	refusedClocks int // a start that the target refuses
	burstBytes    int // bytes of a burst at most; 8 B a clock
	fullBursts    bool
}

// driver is what the SCI driver does on a feeding node: it regularly holds the bus, so that the DMA engine, which
// finds the target refuse one start, waits.
type driver struct {
	period        sim.Time // 0: it is off
	gap           sim.Time
	gapBusyClocks int // of the gap in which the bus is not idle
}

// controlRing is the way from one transmit FIFO to the next queue.
type controlRing struct {
	words         int
	wordTime      sim.Time // a word on the link
	wireDelay     sim.Time
	processing    sim.Time // of the FIFOs and of what stands between them
	forwardAtOnce bool     // a feeding node forwards a message when it comes, not when its own transfer is over
}

// schedulingConfig is who chooses the computing node, and how.
type schedulingConfig struct {
	clock           sim.Time
	latencyClocks   int // clocks from the trigger to the transmit FIFO
	selectionClocks int // clocks to obtain the next destination, between two messages
	slots           int // buffers of a computing node
	policy          core.Policy
	bypass          bool // tags of the core's tag ring, which busy feeding nodes pass on
	perColumn       int  // > 0: nobody chooses: so many successive events to a column, and the next column then
}

// compute is what a computing node does with an event.
type compute struct {
	processors      int
	minFeedbackTime sim.Time // from the last fragment to the feedback, without any work
	meanWork        sim.Time // of exponential work; 0: none
	feedbackDelay   sim.Time // where the scheduler is not in the torus
	feedbackBytes   int      // bytes of a feedback
	sleepTime       sim.Time // one node at a time sleeps so long
}

// event is one that is under way.
type event struct {
	mep            uint64
	bu             int
	slot           uint32
	attempt        uint8
	withSecondPart bool
	tag            core.Tag
	partBytes      []int
	missing        int // packets that are not in memory
	lastFeeder     int // feeding node whose packet came last
	holders        int // the ring, and the computing node
	triggeredAt    sim.Time
	sent           sim.Time
	firstBurstAt   sim.Time // the first feeding node's burst; 0: not yet
}

// farm is a farm at work.
type farm struct {
	s          *sim.Sim
	cfg        config
	net        *sci.Net
	feeders    []*feeder
	computers  []*computer
	sched      *scheduler
	events     []event
	freeEvents []int64
	hops       []*hop // hop i goes to feeding node i; the last one to the scheduler

	messageLatency     []*sim.Histogram // from the scheduler's transmit FIFO to that of each feeding node
	triggerToFirstPart sim.Histogram    // the first part, from the trigger
	allBusy            sim.Level        // 1 while every processor is
	burstToFirstPart   sim.Histogram    // the first part, from the start of the first feeding node's burst
	onePartLatency     sim.Histogram    // all of an event without a second part
	twoPartLatency     sim.Histogram    // all of an event with one
	allLatency         sim.Histogram    // both
	systemLatency      sim.Histogram    // from the scheduler's transmit FIFO to the feedback
	busyProcessors     sim.Level        // processors
	eventsInside       sim.Level        // events issued, without feedback
	packetsOutOfOrder  uint64           // packets that came before one of a feeding node that sends earlier
	built              uint64
	returned           uint64
	trace              *sim.Trace
}

func newFarm(s *sim.Sim, cfg config, trace *sim.Trace) *farm {
	f := &farm{
		s:     s,
		cfg:   cfg,
		net:   sci.New(s, cfg.net, cfg.size...),
		trace: trace,
	}
	for i, at := range cfg.feeders {
		f.feeders = append(f.feeders, newFeeder(f, i, f.net.Node(at)))
		f.messageLatency = append(f.messageLatency, &sim.Histogram{})
	}
	for range len(cfg.feeders) + 1 {
		f.hops = append(f.hops, &hop{f: f, destination: len(f.hops), messagesInFlight: component.NewQueue[int64](s, 0)})
	}
	f.sched = newScheduler(f)
	for i, at := range cfg.computers {
		f.computers = append(f.computers, newComputer(f, i, f.net.Node(at)))
	}
	if cfg.scheduler >= 0 {
		f.net.Node(cfg.scheduler).Receiver = f.sched
	}
	if cfg.compute.sleepTime > 0 {
		f.computers[cfg.columns[0][0]].sleepsNext = true
	}
	f.registerHistograms()
	return f
}

// registerHistograms has who looks into the simulation see the latencies.
func (f *farm) registerHistograms() {
	f.s.AddHistogram("the first part, from the trigger until it is built", &f.triggerToFirstPart)
	f.s.AddHistogram("the first part, from the first feeding node's burst until it is built", &f.burstToFirstPart)
	f.s.AddHistogram("from that burst until all of an event is built", &f.allLatency)
	f.s.AddHistogram("the same of events with a second part", &f.twoPartLatency)
	f.s.AddHistogram("from the scheduler until its feedback", &f.systemLatency)
	f.s.AddHistogram("from the scheduler to the last feeding node", f.messageLatency[len(f.messageLatency)-1])
}

// run plays until the triggers end. It reports whether it was not interrupted.
func (f *farm) run(ctx context.Context, progress func(sim.Time, uint64)) bool {
	f.s.ScheduleAt(0, (*triggerArrived)(f.sched), 0, 0)
	if f.cfg.warmUpEnd > 0 {
		f.s.ScheduleAt(f.cfg.warmUpEnd, sim.Func(func(int64, int64) { f.restart() }), 0, 0)
	}
	// so the clock stands there, even if nothing happens
	f.s.ScheduleAt(f.cfg.triggersEnd, sim.Func(func(int64, int64) {}), 0, 0)
	return f.s.Run(ctx, sim.Limits{Until: f.cfg.triggersEnd, OnProgress: progress}) != sim.Interrupted
}

// restart forgets the statistics of the warm-up.
func (f *farm) restart() {
	for i := range f.messageLatency {
		*f.messageLatency[i] = sim.Histogram{}
		f.feeders[i].restart()
	}
	for _, h := range []*sim.Histogram{&f.burstToFirstPart, &f.triggerToFirstPart, &f.onePartLatency, &f.twoPartLatency,
		&f.allLatency, &f.systemLatency} {
		*h = sim.Histogram{}
	}
	f.busyProcessors.Restart(f.s.Now())
	f.allBusy.Restart(f.s.Now())
	f.eventsInside.Restart(f.s.Now())
	f.built, f.returned = 0, 0
}

// measuredTime is the time since the warm-up.
func (f *farm) measuredTime() sim.Time { return f.s.Now() - f.cfg.warmUpEnd }

// addEvent makes an event and returns its place.
func (f *farm) addEvent(mep uint64, bu int, slot uint32, attempt uint8) int64 {
	var at int64
	if n := len(f.freeEvents); n > 0 {
		at, f.freeEvents = f.freeEvents[n-1], f.freeEvents[:n-1]
	} else {
		at = int64(len(f.events))
		f.events = append(f.events, event{})
	}
	e := &f.events[at]
	*e = event{
		mep:          mep,
		bu:           bu,
		slot:         slot,
		attempt:      attempt,
		partBytes:    append(e.partBytes[:0], f.cfg.drawPartBytes(f.sched.rng)...),
		holders:      2,
		lastFeeder:   -1,
		firstBurstAt: -1,
	}
	e.missing = f.packetCount(e)
	f.eventsInside.Add(f.s.Now(), 1)
	return at
}

// packetCount is the number of packets of an event.
func (f *farm) packetCount(e *event) (n int) {
	for _, b := range e.partBytes {
		n += (b + f.cfg.bus.burstBytes - 1) / f.cfg.bus.burstBytes
	}
	return n
}

// releaseEvent gives up one of the two holds on an event.
func (f *farm) releaseEvent(at int64) {
	if f.events[at].holders--; f.events[at].holders == 0 {
		f.freeEvents = append(f.freeEvents, at)
	}
}

// clocks is a time on a feeding node's bus.
func (f *farm) clocks(n int) sim.Time { return sim.Time(n) * f.cfg.bus.clock }

// nextEdge is the first edge of a clock that is not before t; a clock of 0 has edges everywhere.
func nextEdge(t, clock sim.Time) sim.Time {
	if clock == 0 {
		return t
	}
	return (t + clock - 1) / clock * clock
}
