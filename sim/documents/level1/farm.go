package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// farmModel simulates the farm that L1-farm plans: tags go down the rows of units, and each event goes to a computing
// node of its own.
var farmModel = study.Model{
	Name: "level1-farm",
	Help: "The planned level-1 farm: a torus with two readout units a row, an event to each node in turn, results back.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		f := readFarm(p)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		plot := study.Curve{Name: "mean wait"}
		s := env.Sim()
		net := sci.New(s, f.cfg, f.columns, f.rows)
		r := f.newRun(s, net)
		if err := g.play(ctx, s, 0); err != nil {
			return g.out, err
		}
		g.addResult(sim.Time(r.eventLatency.Max()).Seconds(), study.Time, "transport-longest")
		g.addResult(r.eventLatency.Mean()*sim.Picosecond.Seconds(), study.Time, "transport-mean")
		g.addResult(sim.Time(r.fragmentLatency.Max()).Seconds(), study.Time, "network-longest")
		g.addResult(sim.Time(r.resultLatency.Max()).Seconds(), study.Time, "message-back-longest")
		for i, u := range r.units {
			plot.Points = append(plot.Points, [2]float64{float64(i + 1), sim.Time(u.tagWait.Mean()).Micros()})
		}
		g.addResult(r.units[0].tagWait.Mean()*sim.Picosecond.Seconds(), study.Time, "wait-first")
		g.addResult(r.units[len(r.units)-1].tagWait.Mean()*sim.Picosecond.Seconds(), study.Time, "wait-last")
		g.addResult(float64(r.refusedBursts), study.Count, "retries")
		g.addResult(float64(net.Retried()), study.Count, "busy-echoes")
		g.addResult(float64(int64(f.events)-r.finishedEvents), study.Count, "events-lost")
		r.addLoads(g)
		g.out.Plots = []study.Plot{{
			Name:   "wait",
			X:      "place in the chain",
			Y:      "µs",
			Curves: []study.Curve{plot},
		}}
		return g.out, nil
	},
}

// farm describes the farm.
type farm struct {
	cfg                       sci.Config
	columns, rows             int
	secondColumn              int      // column of the second unit of a row; the first one is in column 0
	tagChains                 int      // one chain of tags through all units, or one for each column of units
	period                    sim.Time // of events
	eventDelay, firstTagDelay sim.Time // from an event to its data in all units, and from there to its tag
	tagTime, dataTime         sim.Time // to read a tag and set up the engine, and to hand the data to the card
	setUpClocks               int      // clocks from a burst's address to its data
	retryClocks               int      // clocks until a refused burst is tried again
	fragment                  int      // bytes
	message                   int      // bytes of the result
	events                    int
}

func readFarm(p *study.Params) farm {
	d := readDMA(p)
	f := farm{
		cfg:           ReadNetwork(p),
		columns:       p.Int("columns", 4, 100),
		rows:          p.Int("rows", 2, 100),
		secondColumn:  p.Int("second-unit", 1, 98),
		tagChains:     p.Int("chains", 1, 2),
		period:        p.Time("period"),
		eventDelay:    p.Time("front-end"),
		firstTagDelay: p.Time("first-unit"),
		tagTime:       p.Time("tag"),
		dataTime:      p.Time("unit-data"),
		setUpClocks:   d.setUpClocks,
		retryClocks:   d.refusedClocks + d.setUpClocks,
		fragment:      p.Size("fragment", 8, 128),
		message:       p.Size("message", 8, 128),
		events:        p.Int("events", 1, 100_000),
	}
	if f.secondColumn >= f.columns {
		p.AddError("second-unit", "stands outside of the torus")
	}
	return f
}

// target is the node of event n: the next column and the next row, so that successive events go to different columns
// and rows, and each node has its turn before any has another. Taking a row's nodes in turn would be wrong: their
// responses to all units are more than the row's ring carries.
func (f *farm) target(n int64) int {
	i, columns := int(n), f.columns-2
	x, y := i%columns+1, i%f.rows
	if x >= f.secondColumn {
		x++
	}
	turn := lcm(columns, f.rows)
	return x + f.columns*((y+i/turn%(columns*f.rows/turn))%f.rows)
}

// lcm is the least common multiple.
func lcm(a, b int) int {
	n := a
	for n%b != 0 {
		n += a
	}
	return n
}

// farmRun is a simulation of the farm.
type farmRun struct {
	*farm
	s                 *sim.Sim
	net               *sci.Net
	units             []*feeder
	decisionNode      int           // node of the decision unit
	fragmentsReceived map[int64]int // by event: fragments received
	finishedEvents    int64         // events whose result has come
	refusedBursts     uint64
	eventLatency      sim.Histogram // from an event to the last word of its last fragment
	fragmentLatency   sim.Histogram // of fragments, from bus to bus
	resultLatency     sim.Histogram // of results, from bus to bus
	routedBytes       map[[2]int]uint64
	nodeBytes         map[int]uint64
	rowBytes          []uint64 // by row
}

// feeder is a readout unit. It takes a tag as soon as its engine is free, and passes it on when the data is in the
// card.
type feeder struct {
	r            *farmRun
	node         int
	next         *feeder
	engineFreeAt sim.Time
	tagWait      sim.Histogram // of events, from their data in the unit to the tag
}

func (f *farm) newRun(s *sim.Sim, net *sci.Net) *farmRun {
	r := &farmRun{
		farm:              f,
		s:                 s,
		net:               net,
		decisionNode:      f.columns*f.rows - 1,
		fragmentsReceived: map[int64]int{},
		routedBytes:       map[[2]int]uint64{},
		nodeBytes:         map[int]uint64{},
		rowBytes:          make([]uint64, f.rows),
	}
	s.AddHistogram("from an event until its last fragment is in its node", &r.eventLatency)
	s.AddHistogram("fragments, from bus to bus", &r.fragmentLatency)
	s.AddHistogram("results, from bus to bus", &r.resultLatency)
	for i := range f.columns * f.rows {
		net.Node(i).Receiver = (*farmReceiver)(r)
	}
	var heads []*feeder
	for _, column := range []int{f.secondColumn, 0} {
		var last *feeder
		if f.tagChains == 1 && len(r.units) > 0 {
			last = r.units[len(r.units)-1]
		}
		for row := range f.rows {
			u := &feeder{r: r, node: column + row*f.columns}
			if last == nil {
				heads = append(heads, u)
			} else {
				last.next = u
			}
			last = u
			r.units = append(r.units, u)
		}
	}
	var tick sim.Func
	tick = func(n, _ int64) {
		for _, u := range heads {
			s.ScheduleAfter(f.eventDelay+f.firstTagDelay, (*tagArrived)(u), n, 0)
		}
		if n+1 < int64(f.events) {
			s.ScheduleAfter(f.period, tick, n+1, 0)
		}
	}
	s.ScheduleAt(0, tick, 0, 0)
	return r
}

// eventTime is when the front-end has event n.
func (r *farmRun) eventTime(n int64) sim.Time { return sim.Time(n) * r.period }

type tagArrived feeder

// Handle: the unit decodes the tag, maybe while its engine is still at work.
func (t *tagArrived) Handle(n, _ int64) {
	r, now := t.r, t.r.s.Now()
	t.tagWait.Add(int64(now - r.eventTime(n) - r.eventDelay))
	begin := max(now+r.tagTime, t.engineFreeAt)
	t.engineFreeAt = begin + r.dataTime
	r.s.ScheduleAt(begin+sim.Time(r.setUpClocks)*r.cfg.PCIClock, (*fragmentSent)(t), n, 0)
	if t.next != nil {
		r.s.ScheduleAt(t.engineFreeAt, (*tagArrived)(t.next), n, 0)
	}
}

type fragmentSent feeder

// Handle: the card takes the fragment, or refuses it and the unit tries again later.
func (u *fragmentSent) Handle(n, _ int64) {
	r := u.r
	if !r.net.Node(u.node).Send(r.target(n), r.fragment, n, 0) {
		r.refusedBursts++
		r.s.ScheduleAfter(sim.Time(r.retryClocks)*r.cfg.PCIClock, u, n, 0)
		return
	}
	r.rowBytes[u.node/r.columns] += uint64(r.fragment)
}

type farmReceiver farmRun

// Receive counts a fragment; with the last fragment of an event the node sends the result.
func (e *farmReceiver) Receive(p *sci.Packet) {
	r := (*farmRun)(e)
	now := r.s.Now()
	if p.Piece == 1 {
		r.resultLatency.Add(int64(now - p.AcceptedAt))
		r.finishedEvents++
		return
	}
	r.fragmentLatency.Add(int64(now - p.AcceptedAt))
	r.nodeBytes[p.Dst] += uint64(p.Size)
	if p.Src/r.columns != p.Dst/r.columns {
		r.routedBytes[[2]int{p.Src / r.columns, p.Dst % r.columns}] += uint64(p.Size)
	}
	if r.fragmentsReceived[p.ID]++; r.fragmentsReceived[p.ID] < len(r.units) {
		return
	}
	delete(r.fragmentsReceived, p.ID)
	data := sim.Time((p.Size+7)/8) * r.cfg.PCIClock
	r.eventLatency.Add(int64(now + data - r.eventTime(p.ID)))
	if p.Dst == r.decisionNode {
		r.finishedEvents++
		return
	}
	r.s.ScheduleAfter(data, sim.Func(func(node, n int64) {
		if !r.net.Node(int(node)).Send(r.decisionNode, r.message, n, 1) {
			r.refusedBursts++
		}
	}), int64(p.Dst), p.ID)
}

// addLoads adds the loads of rows, route nodes and computing nodes.
func (r *farmRun) addLoads(g *modelRun) {
	took := sim.Time(r.events) * r.period
	var row, route, node uint64
	for _, b := range r.rowBytes {
		row = max(row, b)
	}
	for _, b := range r.routedBytes {
		route += b
	}
	for _, b := range r.nodeBytes {
		node += b
	}
	g.addResult(sim.PerSecond(row, took), study.Bandwidth, "row")
	g.addResult(sim.PerSecond(route, took)/float64(len(r.routedBytes)), study.Bandwidth, "route-node")
	g.addResult(sim.PerSecond(node, took)/float64(len(r.nodeBytes)), study.Bandwidth, "computing-node")
}
