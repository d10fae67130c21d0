package tagfarm

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/sci"
	"ringlet/tagnet"
)

// config is what a farm is made of and how it is driven.
type config struct {
	bus         bus
	driver      driver
	controlRing controlRing
	order       order
	compute     compute

	// The network and who stands where in it.

	net       sci.Config
	size      []int   // of the torus
	feeders   []int   // nodes, in the order of the control ring
	computers []int   // nodes, in the order of the builder units
	columns   [][]int // builder units that share a column
	watch     int     // builder unit of the system latency; -1: all
	scheduler int     // node; -1: it is not in the torus, and feedback takes compute.feedback

	// The input.

	period sim.Time                  // between triggers
	warm   sim.Time                  // statistics begin here
	until  sim.Time                  // triggers end here
	bytes  func(r *sim.Stream) []int // of each feeding node's part of an event; the farm does not keep the slice
	again  float64                   // share of events that ask for a second part, as large as the first
}

// bus is the PCI bus of a feeding node, in clocks.
type bus struct {
	clock      sim.Time
	grant      int // to get the bus
	address    int
	setup      int // of the target
	refused    int // a start that the target refuses
	piece      int // bytes of a burst at most; 8 B a clock
	fullBursts bool
}

// driver is what the SCI driver does on a feeding node: it regularly holds the bus, so that the DMA engine, which
// finds the target refuse one start, waits.
type driver struct {
	every  sim.Time // 0: it is off
	gap    sim.Time
	clocks int // of the gap in which the bus is not idle
}

// controlRing is the way from one transmit FIFO to the next queue.
type controlRing struct {
	words      int
	strobe     sim.Time // a word on the link
	wire       sim.Time
	processing sim.Time // of the FIFOs and of what stands between them
	atOnce     bool     // a feeding node forwards a message when it comes, not when its own transfer is over
}

// order is who chooses the computing node, and how.
type order struct {
	clock     sim.Time
	latency   int // clocks from the trigger to the transmit FIFO
	selection int // clocks to obtain the next destination, between two messages
	slots     int // buffers of a computing node
	policy    tagnet.Policy
	bypass    bool // tags of the core's tag ring, which busy feeding nodes pass on
	perColumn int  // > 0: nobody chooses: so many successive events to a column, and the next column then
}

// compute is what a computing node does with an event.
type compute struct {
	processors int
	least      sim.Time // from the last fragment to the feedback, without any work
	mean       sim.Time // of exponential work; 0: none
	feedback   sim.Time // where the scheduler is not in the torus
	size       int      // bytes of a feedback
	suspend    sim.Time // one node at a time sleeps so long
}

// event is one that is under way.
type event struct {
	mep     uint64
	bu      int
	slot    uint32
	attempt uint8
	second  bool
	tag     tagnet.Tag
	bytes   []int
	missing int // packets that are not in memory
	last    int // feeding node whose packet came last
	holders int // the ring, and the computing node
	came    sim.Time
	sent    sim.Time
	began   sim.Time // the first feeding node's burst; 0: not yet
}

// farm is a farm at work.
type farm struct {
	s      *sim.Sim
	cfg    config
	net    *sci.Net
	fns    []*feeder
	cns    []*computer
	sched  *scheduler
	events []event
	free   []int64
	hops   []*hop // hop i goes to feeding node i; the last one to the scheduler

	latency   []*sim.Histogram // from the scheduler's transmit FIFO to that of each feeding node
	triggered sim.Histogram    // the first part, from the trigger
	allBusy   sim.Level        // 1 while every processor is
	building  sim.Histogram    // the first part, from the start of the first feeding node's burst
	full      sim.Histogram    // all of an event without a second part
	long      sim.Histogram    // all of an event with one
	tail      sim.Histogram    // both
	system    sim.Histogram    // from the scheduler's transmit FIFO to the feedback
	busy      sim.Level        // processors
	inside    sim.Level        // events issued, without feedback
	disorder  uint64           // packets that came before one of a feeding node that sends earlier
	built     uint64
	returned  uint64
	trace     *sim.Trace
}

func newFarm(s *sim.Sim, cfg config, trace *sim.Trace) *farm {
	f := &farm{
		s:     s,
		cfg:   cfg,
		net:   sci.New(s, cfg.net, cfg.size...),
		trace: trace,
	}
	for i, at := range cfg.feeders {
		f.fns = append(f.fns, newFeeder(f, i, f.net.Node(at)))
		f.latency = append(f.latency, &sim.Histogram{})
	}
	for range len(cfg.feeders) + 1 {
		f.hops = append(f.hops, &hop{f: f, to: len(f.hops), flying: component.NewQueue[int64](s, 0)})
	}
	f.sched = newScheduler(f)
	for i, at := range cfg.computers {
		f.cns = append(f.cns, newComputer(f, i, f.net.Node(at)))
	}
	if cfg.scheduler >= 0 {
		f.net.Node(cfg.scheduler).To = f.sched
	}
	if cfg.compute.suspend > 0 {
		f.cns[cfg.columns[0][0]].victim = true
	}
	f.show()
	return f
}

// show has who looks into the simulation see the latencies.
func (f *farm) show() {
	f.s.Show("the first part, from the trigger until it is built", &f.triggered)
	f.s.Show("the first part, from the first feeding node's burst until it is built", &f.building)
	f.s.Show("from that burst until all of an event is built", &f.tail)
	f.s.Show("the same of events with a second part", &f.long)
	f.s.Show("from the scheduler until its feedback", &f.system)
	f.s.Show("from the scheduler to the last feeding node", f.latency[len(f.latency)-1])
}

// run plays until the triggers end. It reports whether it was not interrupted.
func (f *farm) run(ctx context.Context, progress func(sim.Time, uint64)) bool {
	f.s.ScheduleAt(0, (*trigger)(f.sched), 0, 0)
	if f.cfg.warm > 0 {
		f.s.ScheduleAt(f.cfg.warm, sim.Func(func(int64, int64) { f.restart() }), 0, 0)
	}
	// so the clock stands there, even if nothing happens
	f.s.ScheduleAt(f.cfg.until, sim.Func(func(int64, int64) {}), 0, 0)
	return f.s.Run(ctx, sim.Limits{Until: f.cfg.until, Progress: progress}) != sim.Interrupted
}

// drain plays what is under way to its end; the drivers would never end.
func (f *farm) drain(ctx context.Context) {
	for f.inside.Value() > 0 && f.s.Run(ctx, sim.Limits{Events: 1}) == sim.EventLimit {
	}
}

// restart forgets the statistics of the warm-up.
func (f *farm) restart() {
	for i := range f.latency {
		*f.latency[i] = sim.Histogram{}
		f.fns[i].restart()
	}
	for _, h := range []*sim.Histogram{&f.building, &f.triggered, &f.full, &f.long, &f.tail, &f.system} {
		*h = sim.Histogram{}
	}
	f.busy.Restart(f.s.Now())
	f.allBusy.Restart(f.s.Now())
	f.inside.Restart(f.s.Now())
	f.built, f.returned = 0, 0
}

// measured is the time since the warm-up.
func (f *farm) measured() sim.Time { return f.s.Now() - f.cfg.warm }

// open makes an event and returns its place.
func (f *farm) open(mep uint64, bu int, slot uint32, attempt uint8) int64 {
	var at int64
	if n := len(f.free); n > 0 {
		at, f.free = f.free[n-1], f.free[:n-1]
	} else {
		at = int64(len(f.events))
		f.events = append(f.events, event{})
	}
	e := &f.events[at]
	*e = event{
		mep:     mep,
		bu:      bu,
		slot:    slot,
		attempt: attempt,
		bytes:   append(e.bytes[:0], f.cfg.bytes(f.sched.rng)...),
		holders: 2,
		last:    -1,
		began:   -1,
	}
	e.missing = f.pieces(e)
	f.inside.Add(f.s.Now(), 1)
	return at
}

// pieces is the number of packets of an event.
func (f *farm) pieces(e *event) (n int) {
	for _, b := range e.bytes {
		n += (b + f.cfg.bus.piece - 1) / f.cfg.bus.piece
	}
	return n
}

// release gives up one of the two holds on an event.
func (f *farm) release(at int64) {
	if f.events[at].holders--; f.events[at].holders == 0 {
		f.free = append(f.free, at)
	}
}

// clocks is a time on a feeding node's bus.
func (f *farm) clocks(n int) sim.Time { return sim.Time(n) * f.cfg.bus.clock }

// edge is the first edge of a clock that is not before t; a clock of 0 has edges everywhere.
func edge(t, clock sim.Time) sim.Time {
	if clock == 0 {
		return t
	}
	return (t + clock - 1) / clock * clock
}
