package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/study"
)

// eventSize draws events and cuts them into the fragments of the units.
var eventSize = study.Model{
	Name: "level1-event",
	Help: "Events of clusters, spread over boards as chance will have it, and their fragments with what is added to them.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		d := detector{
			boards:              p.Int("boards", 1, 10_000),
			boardsPerUnit:       p.Int("boards-of-a-unit", 1, 1000),
			cluster:             p.Size("cluster", 1, 100),
			bytesPerBoard:       p.Size("board-overhead", 0, 1000),
			bytesPerUnit:        p.Size("unit-overhead", 0, 1000),
			packet:              p.Size("packet", 8, 4096),
			maxClustersPerBoard: p.Int("most-of-a-board", 1, 10_000),
		}
		bare, noisy := p.Number("clusters"), p.Number("clusters-with-noise")
		events, rate := p.Int("events", 1, 1_000_000), p.Quantity("rate", study.Rate)
		if !(bare > 0 && noisy > 0 && rate > 0) {
			p.AddError("clusters", "clusters, clusters-with-noise and rate must be above 0")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		s := env.Sim()
		for _, c := range []struct {
			name     string
			clusters float64
		}{{"bare", bare}, {"with-noise", noisy}} {
			rng := s.RandomStream(c.name)
			var all eventSums
			for range events {
				if ctx.Err() != nil {
					return g.out, context.Cause(ctx)
				}
				d.drawEvent(rng, c.clusters/float64(d.boards), &all)
			}
			n := float64(events)
			g.addResult(all.payload/n, study.Bytes, "payload-%s", c.name)
			g.addResult(all.size/n, study.Bytes, "event-%s", c.name)
			g.addResult(all.size/all.fragments, study.Bytes, "fragment-%s", c.name)
			g.addResult(all.payload/n*rate, study.Bandwidth, "bandwidth-%s", c.name)
			g.out.Add("more-than-a-packet-"+c.name, study.Share(all.largeFragments/all.fragments))
			g.addResult(all.overfullBoards, study.Count, "full-boards-%s", c.name)
			g.addResult(all.fragments/n, study.Count, "units-%s", c.name)
		}
		return g.out, nil
	},
}

// detector describes the readout of events.
type detector struct {
	boards, boardsPerUnit       int // all boards, and those of a unit
	cluster                     int // bytes of a cluster
	bytesPerBoard, bytesPerUnit int // overhead, bytes
	packet                      int // bytes of a packet
	maxClustersPerBoard         int
}

// eventSums has sums over events.
type eventSums struct {
	payload, size, fragments float64
	largeFragments           float64 // fragments of more than a packet
	overfullBoards           float64 // boards with more clusters than they can count
}

// drawEvent draws an event and adds it to the sums.
func (d *detector) drawEvent(rng *sim.RandomStream, mean float64, all *eventSums) {
	for first := 0; first < d.boards; first += d.boardsPerUnit {
		size := d.bytesPerUnit
		for range min(d.boardsPerUnit, d.boards-first) {
			n := rng.Poisson(mean)
			if n > d.maxClustersPerBoard {
				all.overfullBoards++
			}
			all.payload += float64(n * d.cluster)
			size += d.bytesPerBoard + n*d.cluster
		}
		all.size += float64(size)
		all.fragments++
		if size > d.packet {
			all.largeFragments++
		}
	}
}

// decisionsModel simulates processors for events that the front-end keeps in a buffer of limited depth.
var decisionsModel = study.Model{
	Name: "level1-decisions",
	Help: "Processors that work on events in the order of coming, while the front-end keeps a limited number of them.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		o := queueModel{
			period:        p.Time("period"),
			meanWork:      sim.Time(float64(p.Time("processing")) / p.Number("faster")),
			frontEndDepth: p.Int("buffer", 1, 1_000_000),
			totalEvents:   p.Int("events", 1, 10_000_000),
		}
		nodes, each := p.Int("nodes", 1, 100_000), p.Int("processors-of-a-node", 1, 1000)
		if o.period <= 0 || o.meanWork <= 0 {
			p.AddError("period", "the period and the processing time must be above 0")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		for _, c := range []struct {
			name string
			idle int
		}{{"any-number", o.totalEvents}, {"these-nodes", nodes * each}} {
			run := o
			run.idleProcessors = c.idle
			s := env.Sim()
			run.open(s)
			if err := g.play(ctx, s, 0); err != nil {
				return g.out, err
			}
			g.addResult(run.meanBusy/float64(each), study.Count, "busy-nodes-%s", c.name)
			g.addResult(sim.Time(run.wait.Mean()).Seconds(), study.Time, "wait-%s", c.name)
			g.addResult(sim.Time(run.inTimeLatency.Max()).Seconds(), study.Time, "longest-in-time-%s", c.name)
			g.addResult(sim.Time(run.lateLatency.Min()).Seconds(), study.Time, "shortest-timed-out-%s", c.name)
			g.out.Add("timed-out-"+c.name, study.Share(float64(run.lateLatency.Count())/float64(o.totalEvents)))
			g.addResult(float64(uint64(o.totalEvents)-run.inTimeLatency.Count()-run.lateLatency.Count()), study.Count,
				"unanswered-%s", c.name)
		}
		return g.out, nil
	},
}

// queueModel is the farm as a queue before processors, with the decision unit behind: the decision on an event must
// come before the front-end needs the event's place for another one.
type queueModel struct {
	s                           *sim.Sim
	rng                         *sim.RandomStream
	period, meanWork            sim.Time // times; work is exponential
	frontEndDepth               int      // events that the front-end keeps
	totalEvents, idleProcessors int
	arrivedEvents               int
	queue                       *component.Queue[int64]
	busyProcessors              sim.Level
	meanBusy                    float64 // while events came, after the first of them had filled the farm
	wait                        sim.Histogram
	inTimeLatency, lateLatency  sim.Histogram // of decisions in time, and of events that the unit timed out
}

func (o *queueModel) open(s *sim.Sim) {
	o.s, o.rng, o.queue = s, s.RandomStream("processing"), component.NewQueue[int64](s, 0)
	s.AddHistogram("an event's wait for a processor", &o.wait)
	s.AddHistogram("latency of decisions in time", &o.inTimeLatency)
	s.AddHistogram("latency of those that were timed out", &o.lateLatency)
	s.ScheduleAt(0, (*eventArrival)(o), 0, 0)
}

type eventArrival queueModel

// Handle: event n comes.
func (a *eventArrival) Handle(n, _ int64) {
	o := (*queueModel)(a)
	o.queue.Put(n)
	o.arrivedEvents++
	o.startWork()
	switch o.arrivedEvents {
	case o.totalEvents:
		o.meanBusy = o.busyProcessors.Mean(o.s.Now())
		return
	case o.totalEvents / 5:
		o.busyProcessors.Restart(o.s.Now())
	}
	o.s.ScheduleAfter(o.period, a, n+1, 0)
}

// startWork gives waiting events to idle processors.
func (o *queueModel) startWork() {
	for o.idleProcessors > 0 && o.queue.Len() > 0 {
		n := o.queue.Get()
		o.wait.Add(int64(o.s.Now() - sim.Time(n)*o.period))
		o.idleProcessors--
		o.busyProcessors.Add(o.s.Now(), 1)
		o.s.ScheduleAfter(o.rng.Exp(o.meanWork), (*decisionMade)(o), n, 0)
	}
}

type decisionMade queueModel

// Handle: event n is decided. If the front-end has reused its place, the unit has timed it out before.
func (d *decisionMade) Handle(n, _ int64) {
	o := (*queueModel)(d)
	o.idleProcessors++
	o.busyProcessors.Add(o.s.Now(), -1)
	latency := int64(o.s.Now() - sim.Time(n)*o.period)
	if int(n)+o.frontEndDepth < o.arrivedEvents || o.arrivedEvents == o.totalEvents &&
		latency >= int64(sim.Time(o.frontEndDepth)*o.period) {
		o.lateLatency.Add(latency)
	} else {
		o.inTimeLatency.Add(latency)
	}
	o.startWork()
}
