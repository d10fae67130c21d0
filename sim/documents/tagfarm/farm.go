package tagfarm

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/documents/sci"
	"ringlet/tagnet/core"
)

// config describes a farm and its input.
type config struct {
	bus         bus
	driver      driver
	controlRing controlRing
	scheduling  schedulingConfig
	compute     compute

	// The network, and the positions of the nodes in it.

	net       sci.Config
	size      []int   // of the torus
	feeders   []int   // nodes, in the order of the control ring
	computers []int   // nodes, in the order of the builder units
	columns   [][]int // builder units that share a column
	watchedBU int     // whose system latency is recorded; -1: all
	scheduler int     // its node; -1: it is not in the torus, and feedback takes compute.feedbackDelay

	// The input.

	period      sim.Time // between triggers
	warmUpEnd   sim.Time // end of the warm-up: statistics begin
	triggersEnd sim.Time
	// drawPartBytes draws each feeding node's part of an event; the farm does not keep the slice.
	drawPartBytes   func(r *sim.RandomStream) []int
	secondPartShare float64 // share of events that ask for a second part, as large as the first
}

// bus is the PCI bus of a feeding node, in clocks.
type bus struct {
	clock         sim.Time
	grantClocks   int // to get the bus
	addressClocks int
	setUpClocks   int // of the target
	refusedClocks int // of a start that the target refuses
	burstBytes    int // bytes that a burst may have; 8 B a clock
	fullBursts    bool
}

// driver is the SCI driver on a feeding node: it regularly holds the bus, so that the target refuses a start of the DMA
// engine, which then waits.
type driver struct {
	period        sim.Time // 0: no driver
	gap           sim.Time
	gapBusyClocks int // clocks of the gap in which the bus is busy
}

// controlRing is the path from one transmit FIFO to the next queue.
type controlRing struct {
	words         int
	wordTime      sim.Time // time of a word on the link
	wireDelay     sim.Time
	processing    sim.Time // of the FIFOs and the logic between them
	forwardAtOnce bool     // a feeding node forwards a message when it arrives, not after its own transfer
}

// schedulingConfig says how the computing node is chosen.
type schedulingConfig struct {
	clock           sim.Time
	latencyClocks   int // clocks from the trigger to the transmit FIFO
	selectionClocks int // clocks to choose the next destination, between two messages
	slots           int // buffers of a computing node
	policy          core.Policy
	bypass          bool // tags of the core's tag ring, which busy feeding nodes pass on
	perColumn       int  // > 0: the core is not used: a column gets this many successive events, then the next column
}

// compute is the work of a computing node on an event.
type compute struct {
	processors      int
	minFeedbackTime sim.Time // from the last fragment to the feedback, without work
	meanWork        sim.Time // mean of exponential work; 0: none
	feedbackDelay   sim.Time // how long feedback takes to a scheduler outside the torus
	feedbackBytes   int      // bytes of a feedback
	sleepTime       sim.Time // one node at a time sleeps for this time; 0: none sleeps
}

// event is an event under way.
type event struct {
	mep            uint64
	bu             int
	slot           uint32
	attempt        uint8
	withSecondPart bool
	tag            core.Tag
	partBytes      []int
	missing        int // packets that are not yet in memory
	lastFeeder     int // feeding node of the latest packet
	holders        int // count of references: by the ring, and by the computing node
	triggeredAt    sim.Time
	sent           sim.Time
	firstBurstAt   sim.Time // of the first feeding node; below 0: not yet
}

// farm is a simulation of a farm.
type farm struct {
	s          *sim.Sim
	cfg        config
	net        *sci.Net
	feeders    []*feeder
	computers  []*computer
	sched      *scheduler
	events     []event
	freeEvents []int64
	hops       []*hop // hop i ends at feeding node i; the last one at the scheduler

	messageLatency     []*sim.Histogram // from the scheduler's transmit FIFO to that of each feeding node
	triggerToFirstPart sim.Histogram    // the first part, from the trigger
	allBusy            sim.Level        // 1 while all processors are busy
	burstToFirstPart   sim.Histogram    // the first part, from the start of the first feeding node's burst
	onePartLatency     sim.Histogram    // all of an event without a second part
	twoPartLatency     sim.Histogram    // all of an event with one
	allLatency         sim.Histogram    // all events
	systemLatency      sim.Histogram    // from the scheduler's transmit FIFO to the feedback
	busyProcessors     sim.Level
	eventsInside       sim.Level // issued, without feedback
	packetsOutOfOrder  uint64    // packets that came before one of an earlier feeding node
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

// registerHistograms registers the latencies with an observed simulation.
func (f *farm) registerHistograms() {
	f.s.AddHistogram("the first part, from the trigger until it is built", &f.triggerToFirstPart)
	f.s.AddHistogram("the first part, from the first feeding node's burst until it is built", &f.burstToFirstPart)
	f.s.AddHistogram("from that burst until all of an event is built", &f.allLatency)
	f.s.AddHistogram("the same of events with a second part", &f.twoPartLatency)
	f.s.AddHistogram("from the scheduler until its feedback", &f.systemLatency)
	f.s.AddHistogram("from the scheduler to the last feeding node", f.messageLatency[len(f.messageLatency)-1])
}

// run simulates until triggersEnd. It returns false if it was interrupted.
func (f *farm) run(ctx context.Context, progress func(sim.Time, uint64)) bool {
	f.s.ScheduleAt(0, (*triggerArrived)(f.sched), 0, 0)
	if f.cfg.warmUpEnd > 0 {
		f.s.ScheduleAt(f.cfg.warmUpEnd, sim.Func(func(int64, int64) { f.restart() }), 0, 0)
	}
	// An empty event there advances the clock to it.
	f.s.ScheduleAt(f.cfg.triggersEnd, sim.Func(func(int64, int64) {}), 0, 0)
	return f.s.Run(ctx, sim.Limits{Until: f.cfg.triggersEnd, OnProgress: progress}) != sim.Interrupted
}

// restart drops the statistics of the warm-up.
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

// addEvent adds an event and returns its index.
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

// releaseEvent drops one of the two references to an event.
func (f *farm) releaseEvent(at int64) {
	if f.events[at].holders--; f.events[at].holders == 0 {
		f.freeEvents = append(f.freeEvents, at)
	}
}

// clocks is the time of n clocks of a feeding node's bus.
func (f *farm) clocks(n int) sim.Time { return sim.Time(n) * f.cfg.bus.clock }

// nextEdge is the first edge of a clock at or after t; with a clock of 0 it is t.
func nextEdge(t, clock sim.Time) sim.Time {
	if clock == 0 {
		return t
	}
	return (t + clock - 1) / clock * clock
}
