package level1

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// packetLatency sends a single packet over a growing number of nodes: along a ring, and through a route node.
var packetLatency = study.Model{
	Name: "sci-latency",
	Help: "One packet over a torus of SCI rings, alone: latency from bus to bus against the nodes between.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, columns, rows := ReadNetwork(p), p.Int("columns", 3, 1000), p.Int("rows", 2, 1000)
		most := p.Int("most-between", 0, columns-2)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		plot := study.Plot{Name: "latency", X: "nodes between", Y: "µs"}
		for row, name := range []string{"not-routed", "routed"} {
			c := study.Curve{Name: name}
			for x := range most + 1 {
				d, err := g.lonePacketTime(ctx, cfg, row*columns+x+1, columns, rows)
				if err != nil {
					return g.out, err
				}
				g.addResult(d.Seconds(), study.Time, "%s-%d", name, x)
				c.Points = append(c.Points, [2]float64{float64(x), d.Micros()})
			}
			plot.Curves = append(plot.Curves, c)
		}
		g.out.Plots = []study.Plot{plot}
		return g.out, nil
	},
}

// lonePacketTime is the time of a single packet from node 0, from bus to bus.
func (g *modelRun) lonePacketTime(ctx context.Context, cfg sci.Config, to int, size ...int) (sim.Time, error) {
	s := g.env.Sim()
	net := sci.New(s, cfg, size...)
	m := newMeter(s, net.Node(to))
	net.Node(0).Send(to, cfg.MaxData, 0, 0)
	err := g.play(ctx, s, 0)
	return sim.Time(m.delay.Max()), err
}

// longestPath sends a packet from one corner of a torus to the opposite one: alone, and when each node on the path has
// just begun a packet of its own.
var longestPath = study.Model{
	Name: "sci-longest-path",
	Help: "One packet over the longest path of a torus of SCI rings: alone, and held up by every node on the way.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		w := torusPath{cfg: ReadNetwork(p), columns: p.Int("columns", 2, 100), rows: p.Int("rows", 2, 100)}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		alone, err := g.lonePacketTime(ctx, w.cfg, w.columns*w.rows-1, w.columns, w.rows)
		if err != nil {
			return g.out, err
		}
		held, err := g.worstDelay(ctx, w)
		g.addResult(alone.Seconds(), study.Time, "alone")
		g.addResult(held.Seconds(), study.Time, "held-up")
		return g.out, err
	},
}

// torusPath is the longest path through a torus: along the first row, then along the last column.
type torusPath struct {
	cfg           sci.Config
	columns, rows int
}

// crossings lists the nodes that the packet by-passes, and the destination of each node's own packet: the next node on
// its ring, but not the receiver.
func (w torusPath) crossings() (nodes, to []int) {
	for x := 1; x < w.columns-1; x++ {
		nodes, to = append(nodes, x), append(to, x+1)
	}
	for y := 1; y < w.rows-1; y++ {
		next := (y + 1) % (w.rows - 1) // the row after the last but one is the first: skip the receiver
		nodes, to = append(nodes, w.columns*(y+1)-1), append(to, w.columns*(next+1)-1)
	}
	return nodes, to
}

// firstSend is when the packet of the longest path is sent: other nodes must be able to send earlier.
const firstSend = sim.Microsecond

// worstDelay searches for each node on the path in turn when its packet delays the longest path's packet most.
func (g *modelRun) worstDelay(ctx context.Context, w torusPath) (worst sim.Time, err error) {
	nodes, to := w.crossings()
	begins := make([]sim.Time, len(nodes))
	perNode := w.cfg.BypassTime + sim.Time(w.cfg.HeaderSymbols+w.cfg.MaxData/2+w.cfg.IdleSymbols)*w.cfg.SymbolTime
	for i := range nodes {
		var worstBegin sim.Time
		last := firstSend + sim.Time(i+1)*perNode + w.cfg.RoutingTime
		for begins[i] = firstSend; begins[i] < last; begins[i] += 2 * w.cfg.SymbolTime {
			s := g.env.Sim()
			net := sci.New(s, w.cfg, w.columns, w.rows)
			m := newMeter(s, net.Node(w.columns*w.rows-1))
			send := sim.Func(func(from, to int64) { net.Node(int(from)).Send(int(to), w.cfg.MaxData, 0, 0) })
			s.ScheduleAt(firstSend, send, 0, int64(w.columns*w.rows-1))
			for j, at := range begins[:i+1] {
				s.ScheduleAt(at, send, int64(nodes[j]), int64(to[j]))
			}
			if err := g.play(ctx, s, 0); err != nil {
				return 0, err
			}
			if d := sim.Time(m.delay.Max()); d > worst {
				worst, worstBegin = d, begins[i]
			}
		}
		begins[i] = worstBegin
	}
	return worst, nil
}

// largestRing looks for the largest ring on which echoes come before the sender runs out of slots.
var largestRing = study.Model{
	Name: "sci-largest-ring",
	Help: "The largest SCI ring on which the echoes come before the sender's queue is full.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, period, wait := ReadNetwork(p), p.Time("period"), p.Time("wait")
		packets := p.Int("packets", 100, 1_000_000)
		if period <= 0 {
			p.AddError("period", "is not positive")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		for _, c := range []struct {
			name string
			wait sim.Time
		}{{"idle", 0}, {"held-up", wait}} {
			cfg := cfg
			cfg.BypassTime += c.wait
			nodes, err := g.maxRingNodes(ctx, cfg, period, sim.Time(packets)*period)
			if err != nil {
				return g.out, fmt.Errorf("%s: %w", c.name, err)
			}
			g.addResult(float64(nodes), study.Count, "nodes-%s", c.name)
		}
		return g.out, nil
	},
}

// maxRingNodes is the largest number of nodes with which no packet is refused.
func (g *modelRun) maxRingNodes(ctx context.Context, cfg sci.Config, period, until sim.Time) (int, error) {
	low, high := 2, 512 // low works, high does not
	for high-low > 1 {
		nodes := (low + high) / 2
		s := g.env.Sim()
		net := sci.New(s, cfg, nodes)
		var tick sim.Func
		tick = func(n, _ int64) {
			net.Node(0).Send(nodes/2, cfg.MaxData, n, 0)
			s.ScheduleAfter(period, tick, n+1, 0)
		}
		s.ScheduleAt(0, tick, 0, 0)
		if err := g.play(ctx, s, until); err != nil {
			return 0, err
		}
		if net.Node(0).Refused == 0 {
			low = nodes
		} else {
			high = nodes
		}
	}
	return low, nil
}
