package level1

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/figure"
	"ringlet/sim/sci"
)

// manyToOne is F42: node 9 of a ring of ten receives from software-driven DMA engines of 248 MByte/s each (000:1208).
func manyToOne(ctx context.Context, _ uint64) ([]figure.Point, error) {
	rate := map[int]float64{}
	for _, senders := range []int{1, 2, 5} {
		s := sim.New(0)
		net := sci.New(s, sci.Dolphin(), 10)
		m := watch(s, net.Node(9))
		for i := range senders {
			e := newEngine(s, net, i, piece, func(int64) int { return 9 })
			e.clock = e.clock * 239 / 248
			e.free()
		}
		if err := run(ctx, s, span); err != nil {
			return nil, err
		}
		rate[senders] = mbytes(m.bytes, span)
	}
	return []figure.Point{
		{
			What:     "two sources",
			Unit:     "MByte/s",
			Document: 315,
			Model:    rate[2],
		},
		{
			What:     "five sources",
			Unit:     "MByte/s",
			Document: 298,
			Model:    rate[5],
		},
	}, nil
}

// The prototype of chapter 7: a torus of 10 × 3 nodes; the first of each row is a readout unit, the last of all the
// decision unit, and the 26 others compute (000:1651, 000:1665).
const (
	columns, rows = 10, 3
	computing     = columns*rows - rows - 1
)

// target is the computing node of event n: row by row (000:1861).
func target(n int64) int {
	i := int(n % computing)
	return i + i/(columns-1) + 1
}

// chain is the TagNet: a unit sends when it has a tag, and hands the tag on when its transfer is done and the next unit
// has room for it: one tag may wait there (000:1710).
type chain struct {
	engines []*engine
	tags    []int64 // the tag that waits at a unit; -1: none
	busy    []bool
	held    []int64  // the tag that a unit could not hand on; -1: none
	period  sim.Time // of tags at the first unit; 0: as fast as it takes them
	lost    int      // tags that the first unit had no room for
}

func newChain(s *sim.Sim, net *sci.Net, block int, period sim.Time) *chain {
	c := &chain{period: period}
	for row := range rows {
		e := newEngine(s, net, row*columns, block, target)
		e.clock, e.extra = clock, tagClocks // one clock for all: the tag makes the time
		e.done = func(n int64) { c.over(row, n) }
		c.engines = append(c.engines, e)
	}
	c.tags, c.held, c.busy = []int64{-1, -1, -1}, []int64{-1, -1, -1}, make([]bool, rows)
	if period == 0 {
		c.give(0, 0)
		return c
	}
	var tick sim.Func
	tick = func(n, _ int64) {
		if !c.give(0, n) {
			c.lost++
		}
		s.After(period, tick, n+1, 0)
	}
	s.At(0, tick, 0, 0)
	return c
}

// give hands a tag to a unit, and reports whether it had room.
func (c *chain) give(unit int, tag int64) bool {
	if !c.busy[unit] {
		c.busy[unit] = true
		c.engines[unit].start(tag)
		return true
	}
	if c.tags[unit] >= 0 {
		return false
	}
	c.tags[unit] = tag
	return true
}

// over: a unit's transfer is done.
func (c *chain) over(unit int, tag int64) {
	if unit+1 < rows && !c.give(unit+1, tag) {
		c.held[unit] = tag // it waits with its next transfer until the tag has gone
		return
	}
	c.next(unit, tag)
}

// next lets a unit go on, and the one before it hand on its tag.
func (c *chain) next(unit int, tag int64) {
	c.busy[unit] = false
	switch {
	case c.tags[unit] >= 0:
		waiting := c.tags[unit]
		c.tags[unit] = -1
		c.give(unit, waiting)
	case unit == 0 && c.period == 0:
		c.give(0, tag+1)
	}
	if unit > 0 && c.held[unit-1] >= 0 {
		held := c.held[unit-1]
		c.held[unit-1] = -1
		c.give(unit, held)
		c.next(unit-1, held)
	}
}

// retries of all units.
func (c *chain) retries() (sum uint64) {
	for _, e := range c.engines {
		sum += e.retries
	}
	return sum
}

// maximumRate is F56: the chain as fast as it goes; N_cc = 14 + 34 per 128 B.
func maximumRate(ctx context.Context, _ uint64) (points []figure.Point, err error) {
	for _, f := range []struct {
		bytes int
		mhz   float64
	}{{128, 1.38}, {256, 0.81}, {512, 0.44}, {1024, 0.23}} {
		s := sim.New(0)
		net := sci.New(s, sci.Dolphin(), columns, rows)
		c := newChain(s, net, f.bytes, 0)
		if err := run(ctx, s, span); err != nil {
			return nil, err
		}
		last := c.engines[rows-1]
		rate := sim.PerSecond(uint64(last.blocks), span)
		points = append(points,
			figure.Point{
				What:     fmt.Sprintf("%d B", f.bytes),
				Unit:     "MHz",
				Document: f.mhz,
				Model:    rate / 1e6,
			},
			figure.True(fmt.Sprintf("%d B: no retry", f.bytes), c.retries() == 0))
		if f.bytes == piece {
			points = append(points,
				figure.Point{
					What:     "128 B",
					Unit:     "MByte/s",
					Document: 168,
					Model:    rate * piece / mebibyte,
				},
				figure.Point{
					What:     "below the engine alone",
					Unit:     "kHz",
					Document: 580,
					Model:    1e3/(34*clock.Micros()) - rate/1e3,
				})
		}
	}
	return points, nil
}

// normalRun is F57: a tag each 810 ns.
func normalRun(ctx context.Context, _ uint64) ([]figure.Point, error) {
	const period = 54 * clock
	s := sim.New(0)
	net := sci.New(s, sci.Dolphin(), columns, rows)
	m := watch(s, net.Node(1))
	c := newChain(s, net, piece, period)
	if err := run(ctx, s, span); err != nil {
		return nil, err
	}
	last := c.engines[rows-1]
	return []figure.Point{
		{
			What:     "rate",
			Unit:     "MHz",
			Document: 1.24,
			Model:    sim.PerSecond(uint64(last.blocks), span) / 1e6,
		},
		{
			What:     "idle clocks between bursts",
			Document: 30,
			Model:    float64(period/clock) - (setUp + 16),
		},
		{
			What:     "a computing node is hit every",
			Unit:     "µs",
			Document: 21,
			Model:    span.Micros() / (float64(m.n) / rows),
		},
		{
			What:     "a buffer of two is hit every",
			Unit:     "µs",
			Document: 42.12,
			Model:    2 * span.Micros() / (float64(m.n) / rows),
		},
		figure.True("no tag lost, no retry on a bus or a ring", c.lost == 0 && c.retries() == 0 && net.Retried() == 0),
	}, nil
}

// side is the result of engines that send side by side on a ring.
type side struct {
	engines []*engine
	sum     float64 // MByte/s that the receivers got
	net     *sci.Net
}

// sideBySide runs free engines at the first nodes of a torus; engine i sends to targets(i) in turn.
func sideBySide(ctx context.Context, senders int, targets func(i int) []int, size ...int) (side, error) {
	s := sim.New(0)
	r := side{net: sci.New(s, sci.Dolphin(), size...)}
	var meters []*meter
	for i := range senders {
		to := targets(i)
		for _, node := range to {
			if r.net.Node(node).To == nil {
				meters = append(meters, watch(s, r.net.Node(node)))
			}
		}
		e := newEngine(s, r.net, i, piece, func(n int64) int { return to[int(n)%len(to)] })
		e.free()
		r.engines = append(r.engines, e)
	}
	err := run(ctx, s, span)
	for _, m := range meters {
		r.sum += mbytes(m.bytes, span)
	}
	return r, err
}

// mhz is the rate of an engine.
func (r side) mhz(i int) float64 { return sim.PerSecond(uint64(r.engines[i].blocks), span) / 1e6 }

// threeUnits is F61: one, two, three senders side by side in a ring of six, with a receiver each.
func threeUnits(ctx context.Context, _ uint64) (points []figure.Point, err error) {
	for n := 1; n <= 3; n++ {
		r, err := sideBySide(ctx, n, func(i int) []int { return []int{3 + i} }, 6)
		if err != nil {
			return nil, err
		}
		points = append(points, figure.Point{
			What:     fmt.Sprintf("the most upstream of %d", n),
			Unit:     "MHz",
			Document: 1.96,
			Model:    r.mhz(0),
		})
		for i := 1; i < n; i++ {
			points = append(points, figure.True(fmt.Sprintf("number %d of %d falls below it, with retries", i+1, n),
				r.mhz(i) < 0.99*r.mhz(0) && r.engines[i].retries > 0))
		}
		points = append(points, figure.True(fmt.Sprintf("the most upstream of %d has no retry", n), r.engines[0].retries == 0))
	}
	return points, nil
}

// twoUnits is F62: two senders side by side in a ring of ten, with four receivers each.
func twoUnits(ctx context.Context, _ uint64) ([]figure.Point, error) {
	r, err := sideBySide(ctx, 2, func(i int) []int { return []int{2 + 4*i, 3 + 4*i, 4 + 4*i, 5 + 4*i} }, 10)
	if err != nil {
		return nil, err
	}
	return []figure.Point{
		{
			What:     "both",
			Unit:     "MByte/s",
			Document: 478,
			Model:    r.sum,
		},
		figure.True("retries downstream only", r.engines[0].retries == 0 && r.engines[1].retries > 0),
	}, nil
}

// routeNode is F66: two computing nodes send to two others, along a ring and over one route node.
func routeNode(ctx context.Context, _ uint64) ([]figure.Point, error) {
	ring, err := sideBySide(ctx, 2, func(i int) []int { return []int{3 + i} }, columns)
	if err != nil {
		return nil, err
	}
	routed, err := sideBySide(ctx, 2, func(i int) []int { return []int{4 + columns*(1+i)} }, columns, rows)
	if err != nil {
		return nil, err
	}
	return []figure.Point{
		{
			What:     "along a ring",
			Unit:     "MByte/s",
			Document: 478,
			Model:    ring.sum,
		},
		{
			What:     "over one route node",
			Unit:     "MByte/s",
			Document: 450,
			Model:    routed.sum,
		},
		{
			What:     "what routing costs",
			Unit:     "%",
			Document: (450.0/478 - 1) * 100,
			Model:    (routed.sum/ring.sum - 1) * 100,
			Rule:     figure.Difference,
		},
	}, nil
}
