package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/sci"
	"ringlet/sim/study"
)

// systemLatency follows events through the prototype, alone and with all units sending: from the last fragment's first
// word on the bus of the last unit, to the result's on the bus of the decision unit.
var systemLatency = study.Model{
	Name: "level1-latency",
	Help: "The prototype's latency: the last fragment of an event to its node, and the result to the decision unit.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		t := torus{
			cfg:     Network(p),
			dma:     engines(p),
			columns: p.Int("columns", 2, 100),
			rows:    p.Int("rows", 2, 100),
			extra:   p.Int("tag-clocks", 0, 1000),
		}
		t.quartz = 0
		period, software, flush := p.Time("period"), p.Time("software"), p.Time("flush")
		block, message, until := p.Size("block", 8, 128), p.Size("message", 8, 128), length(p)
		if period <= 0 {
			p.Wrong("period", "is not positive")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		for _, c := range []struct {
			name   string
			period sim.Time
		}{{"alone", 100 * sim.Microsecond}, {"in-traffic", period}} {
			t.period = c.period
			l := &roundTrip{
				torus:    &t,
				s:        env.Sim(),
				software: software,
				flush:    flush,
				message:  message,
				sent:     map[int64]sim.Time{},
			}
			if err := l.play(ctx, g, block, until); err != nil {
				return g.out, err
			}
			g.addResult(sim.Time(l.network.Mean()).Seconds(), study.Time, "network-%s", c.name)
			g.addResult(sim.Time(l.latency.Mean()).Seconds(), study.Time, "latency-%s", c.name)
			g.addResult(sim.Time(l.latency.Max()).Seconds(), study.Time, "latency-longest-%s", c.name)
		}
		return g.out, nil
	},
}

// roundTrip is the prototype with its results. Only the first node's events are measured: those of the document's
// path.
type roundTrip struct {
	*torus
	s        *sim.Sim
	net      *sci.Net
	software sim.Time
	flush    sim.Time // how long a stream that is not full waits for more
	message  int
	sent     map[int64]sim.Time // when the last unit's fragment was
	inbound  map[int64]sim.Time // how long it flew
	network  sim.Histogram
	latency  sim.Histogram
}

func (l *roundTrip) play(ctx context.Context, g *modelRun, block int, until sim.Time) error {
	l.net = sci.New(l.s, l.cfg, l.columns, l.rows)
	l.inbound = map[int64]sim.Time{}
	l.s.Show("from an event's last fragment to its result", &l.latency)
	l.s.Show("the network's part of it", &l.network)
	for i := range l.columns * l.rows {
		l.net.Node(i).To = l
	}
	l.chain(l.s, l.net, block, l.firsts(), l.target)
	return g.play(ctx, l.s, until)
}

// flushDelay is how long a result waits in its stream. The card's time for it begins behind that.
func (l *roundTrip) flushDelay() sim.Time {
	if l.message < l.cfg.MaxData {
		return l.flush
	}
	return 0
}

// lastUnit is the node of the last unit.
func (l *roundTrip) lastUnit() int { return (l.rows - 1) * l.columns }

// Receive gets a fragment in a node, or a result in the decision unit.
func (l *roundTrip) Receive(p *sci.Packet) {
	now := l.s.Now()
	if p.Piece == 1 {
		if sent, measured := l.sent[p.ID]; measured {
			l.latency.Add(int64(now - sent))
			l.network.Add(int64(l.inbound[p.ID] + l.flushDelay() + now - p.Born))
			delete(l.sent, p.ID)
			delete(l.inbound, p.ID)
		}
		return
	}
	if p.Src != l.lastUnit() {
		return
	}
	if p.Dst == l.target(0) {
		l.sent[p.ID], l.inbound[p.ID] = p.Born, now-p.Born
	}
	l.s.ScheduleAfter(l.software+l.flushDelay(), (*answer)(l), int64(p.Dst), p.ID)
}

type answer roundTrip

// Handle: a node writes its result. What its card refuses it tries again.
func (a *answer) Handle(node, n int64) {
	if !a.net.Node(int(node)).Send(a.columns*a.rows-1, a.message, n, 1) {
		a.s.ScheduleAfter(a.cfg.PCIClock, a, node, n)
	}
}
