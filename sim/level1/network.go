package level1

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/figure"
	"ringlet/sim/part"
	"ringlet/sim/sci"
)

// span is how long a model of rates runs: some thousand packets of each sender.
const span = 2 * sim.Millisecond

// run plays a model for a time.
func run(ctx context.Context, s *sim.Sim, until sim.Time) error {
	if end := s.Run(ctx, sim.Limits{Until: until}); end == sim.Interrupted {
		return fmt.Errorf("the model was %v at %v of %v: %w", end, s.Now(), until, ctx.Err())
	}
	return nil
}

// latency is the time of one packet of 128 B, alone, from bus to bus.
func latency(ctx context.Context, cfg sci.Config, from, to int, size ...int) (sim.Time, error) {
	s := sim.New(0)
	net := sci.New(s, cfg, size...)
	m := watch(s, net.Node(to))
	net.Node(from).Send(to, piece, 0, 0)
	err := run(ctx, s, 0)
	return sim.Time(m.delay.Max()), err
}

// packetLatency is F45: 128 B over x by-passing nodes, along a ring and over a route node.
func packetLatency(ctx context.Context, _ uint64) (points []figure.Point, err error) {
	for x := range 4 {
		in, err := latency(ctx, sci.Dolphin(), 0, x+1, 10, 3)
		if err != nil {
			return nil, err
		}
		routed, err := latency(ctx, sci.Dolphin(), 0, 10+x+1, 10, 3)
		if err != nil {
			return nil, err
		}
		points = append(points,
			figure.Point{
				What:     fmt.Sprintf("not routed, %d between", x),
				Unit:     "µs",
				Document: 1.40 + 0.06*float64(x),
				Model:    in.Micros(),
			},
			figure.Point{
				What:     fmt.Sprintf("routed, %d between", x),
				Unit:     "µs",
				Document: 1.97 + 0.06*float64(x),
				Model:    routed.Micros(),
			})
	}
	return points, nil
}

// longestPath is F46: node 00 to node 28 of a 9 × 3 torus, alone, and when each node on the way has just begun a packet
// of its own.
func longestPath(ctx context.Context, _ uint64) ([]figure.Point, error) {
	free, err := latency(ctx, sci.Dolphin(), 0, 8+9*2, 9, 3)
	if err != nil {
		return nil, err
	}
	held, err := heldUp(ctx)
	return []figure.Point{
		{
			What:     "longest path, idle",
			Unit:     "µs",
			Document: 2.44,
			Model:    free.Micros(),
		},
		{
			What:     "each node on the way sends",
			Unit:     "µs",
			Document: 4.17,
			Model:    held.Micros(),
		},
	}, err
}

// heldUp sends the packet of F46 when the nodes that it passes send one each, at the worst time: it tries for each, one
// after the other on the way, when the node must begin to hold the packet up most.
func heldUp(ctx context.Context) (worst sim.Time, err error) {
	path := []int{1, 2, 3, 4, 5, 6, 7, 8 + 9}
	begins := make([]sim.Time, len(path))
	for i := range path {
		var worstBegin sim.Time
		last := firstSend + sim.Time(i+1)*280*sim.Nanosecond + sim.Time(i/7)*570*sim.Nanosecond
		for begins[i] = firstSend; begins[i] < last; begins[i] += 6 * sim.Nanosecond {
			d, err := withOthers(ctx, path[:i+1], begins)
			if err != nil {
				return 0, err
			}
			if d > worst {
				worst, worstBegin = d, begins[i]
			}
		}
		begins[i] = worstBegin
	}
	return worst, nil
}

// firstSend is when the packet of F46 is sent.
const firstSend = sim.Microsecond

// withOthers is the latency of F46's packet when each of the nodes sends a packet to the next one, at its time.
func withOthers(ctx context.Context, path []int, begins []sim.Time) (sim.Time, error) {
	const to = 8 + 9*2
	s := sim.New(0)
	net := sci.New(s, sci.Dolphin(), 9, 3)
	m := watch(s, net.Node(to))
	send := sim.Func(func(from, to int64) { net.Node(int(from)).Send(int(to), piece, 0, 0) })
	s.At(firstSend, send, 0, to)
	for i, node := range path {
		next := node + 1
		if node > 8 {
			next = to - 18 // on the column's ring, past the receiver
		}
		s.At(begins[i], send, int64(node), int64(next))
	}
	err := run(ctx, s, 0)
	return sim.Time(m.delay.Max()), err
}

// hardwareDMA is F47: an engine and its neighbour.
func hardwareDMA(ctx context.Context, _ uint64) (points []figure.Point, err error) {
	rate := map[int]float64{}
	for _, size := range []int{64, 128, 192} {
		s := sim.New(0)
		net := sci.New(s, sci.Dolphin(), 6)
		m := watch(s, net.Node(1))
		e := newEngine(s, net, 0, size, func(int64) int { return 1 })
		e.free()
		if err := run(ctx, s, span); err != nil {
			return nil, err
		}
		rate[size] = sim.PerSecond(uint64(e.blocks), span) / 1e6
		if size == piece {
			points = append(points,
				figure.Point{
					What:     "128 B",
					Unit:     "MByte/s",
					Document: 239,
					Model:    mbytes(m.bytes, span),
				},
				figure.Point{
					What:     "idle clocks of the receiving bus",
					Document: 16,
					Model:    float64(m.gaps.Quantile(0.5))/float64(clock) - 1 - 1 - 16,
				},
				figure.True("no retry", e.retries == 0))
		}
	}
	return append(points,
		figure.Point{What: "64 B", Unit: "MHz", Document: 2.56, Model: rate[64]},
		figure.Point{What: "128 B", Unit: "MHz", Document: 1.96, Model: rate[128]},
		figure.Point{What: "192 B", Unit: "MHz", Document: 1, Model: rate[192], Rule: figure.AtLeast},
	), nil
}

// burst is an engine that always has a burst for its bus.
type burst struct {
	hold sim.Time
	n    int
}

func (b *burst) Offer() (sim.Time, bool) { return b.hold, true }
func (b *burst) Begin()                  {}
func (b *burst) End()                    { b.n++ }

// interleaved is F48: two engines take turns on a bus of 32 bit and 33 MHz; a burst of 64 B is 1 + 4 + 16 clocks, and one
// is idle.
func interleaved(ctx context.Context, _ uint64) ([]figure.Point, error) {
	s := sim.New(0)
	bus := part.NewBus(s, 0)
	a, b := &burst{hold: 22 * 2 * clock}, &burst{hold: 22 * 2 * clock}
	bus.Attach(a)
	bus.Attach(b)
	bus.Kick()
	err := run(ctx, s, span)
	return []figure.Point{
		{
			What:     "64 B",
			Unit:     "MHz",
			Document: 1.51,
			Model:    sim.PerSecond(uint64(a.n+b.n), span) / 1e6,
		},
		figure.True("both alike", a.n-b.n <= 1 && b.n-a.n <= 1),
	}, err
}

// largestRing is F49: how large a ring may be until its sender, with a packet each 900 ns, runs out of slots.
func largestRing(ctx context.Context, _ uint64) ([]figure.Point, error) {
	idle, err := largest(ctx, sci.Dolphin())
	if err != nil {
		return nil, err
	}
	cfg := sci.Dolphin()
	cfg.Bypass += 216 * sim.Nanosecond
	cfg.Routing += cfg.Bypass
	held, err := largest(ctx, cfg)
	return []figure.Point{
		{
			What:     "idle nodes",
			Unit:     "nodes",
			Document: 105,
			Model:    float64(idle),
		},
		{
			What:     "each node holds a packet up",
			Unit:     "nodes",
			Document: 22,
			Model:    float64(held),
		},
	}, err
}

// largest is the most nodes with which nothing is refused in 2,000 packets.
func largest(ctx context.Context, cfg sci.Config) (int, error) {
	low, high := 2, 256 // low works, high does not
	for high-low > 1 {
		nodes := (low + high) / 2
		s := sim.New(0)
		net := sci.New(s, cfg, nodes)
		var tick sim.Func
		tick = func(n, _ int64) {
			net.Node(0).Send(nodes/2, piece, n, 0)
			s.After(900*sim.Nanosecond, tick, n+1, 0)
		}
		s.At(0, tick, 0, 0)
		if err := run(ctx, s, 2000*900*sim.Nanosecond); err != nil {
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
