package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// systemLatency follows events through the prototype, alone and with all units sending: from the first word of the last
// fragment on the last unit's bus to the first word of the result on the decision unit's bus.
var systemLatency = study.Model{
	Name: "level1-latency",
	Help: "The prototype's latency: the last fragment of an event to its node, and the result to the decision unit.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		t := torus{
			cfg:         ReadNetwork(p),
			dma:         readDMA(p),
			columns:     p.Int("columns", 2, 100),
			rows:        p.Int("rows", 2, 100),
			extraClocks: p.Int("tag-clocks", 0, 1000),
		}
		t.clockDrift = 0
		period, software, flush := p.Time("period"), p.Time("software"), p.Time("flush")
		block, message, until := p.Size("block", 8, 128), p.Size("message", 8, 128), readDuration(p)
		if period <= 0 {
			p.AddError("period", "is not positive")
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
				torus:        &t,
				s:            env.Sim(),
				softwareTime: software,
				flushTimeout: flush,
				message:      message,
				lastSentAt:   map[int64]sim.Time{},
			}
			if err := l.play(ctx, g, block, until); err != nil {
				return g.out, err
			}
			g.addResult(sim.Time(l.networkTimes.Mean()).Seconds(), study.Time, "network-%s", c.name)
			g.addResult(sim.Time(l.latency.Mean()).Seconds(), study.Time, "latency-%s", c.name)
			g.addResult(sim.Time(l.latency.Max()).Seconds(), study.Time, "latency-longest-%s", c.name)
		}
		return g.out, nil
	},
}

// roundTrip is the prototype with its results. It measures only events of the first node, which have the document's
// path.
type roundTrip struct {
	*torus
	s              *sim.Sim
	net            *sci.Net
	softwareTime   sim.Time
	flushTimeout   sim.Time // how long a stream that is not full waits for more data
	message        int
	lastSentAt     map[int64]sim.Time // by event: when the last unit's fragment was sent
	fragmentFlight map[int64]sim.Time // by event: time of flight of the last unit's fragment
	networkTimes   sim.Histogram
	latency        sim.Histogram
}

func (l *roundTrip) play(ctx context.Context, g *modelRun, block int, until sim.Time) error {
	l.net = sci.New(l.s, l.cfg, l.columns, l.rows)
	l.fragmentFlight = map[int64]sim.Time{}
	l.s.AddHistogram("from an event's last fragment to its result", &l.latency)
	l.s.AddHistogram("the network's part of it", &l.networkTimes)
	for i := range l.columns * l.rows {
		l.net.Node(i).Receiver = l
	}
	l.chain(l.s, l.net, block, l.firstNodes(), l.target)
	return g.play(ctx, l.s, until)
}

// flushDelay is how long a result waits in its stream. The card's time for it begins afterwards.
func (l *roundTrip) flushDelay() sim.Time {
	if l.message < l.cfg.MaxData {
		return l.flushTimeout
	}
	return 0
}

// lastUnit is the node of the last unit.
func (l *roundTrip) lastUnit() int { return (l.rows - 1) * l.columns }

// Receive handles a fragment in a node, or a result in the decision unit.
func (l *roundTrip) Receive(p *sci.Packet) {
	now := l.s.Now()
	if p.Piece == 1 {
		if sent, measured := l.lastSentAt[p.ID]; measured {
			l.latency.Add(int64(now - sent))
			l.networkTimes.Add(int64(l.fragmentFlight[p.ID] + l.flushDelay() + now - p.AcceptedAt))
			delete(l.lastSentAt, p.ID)
			delete(l.fragmentFlight, p.ID)
		}
		return
	}
	if p.Src != l.lastUnit() {
		return
	}
	if p.Dst == l.target(0) {
		l.lastSentAt[p.ID], l.fragmentFlight[p.ID] = p.AcceptedAt, now-p.AcceptedAt
	}
	l.s.ScheduleAfter(l.softwareTime+l.flushDelay(), (*resultWritten)(l), int64(p.Dst), p.ID)
}

type resultWritten roundTrip

// Handle: a node writes its result. If its card refuses it, the node tries again.
func (a *resultWritten) Handle(node, n int64) {
	if !a.net.Node(int(node)).Send(a.columns*a.rows-1, a.message, n, 1) {
		a.s.ScheduleAfter(a.cfg.PCIClock, a, node, n)
	}
}
