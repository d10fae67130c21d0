package level1

import (
	"ringlet/sim"
	"ringlet/sim/sci"
)

// engine writes blocks by its own DMA, each cut into pieces. It is given a block at a time, or is free and goes on with
// the next as soon as it can.
type engine struct {
	dma
	s     *sim.Sim
	node  *sci.Node
	block int               // bytes
	extra int               // clocks added to each block
	dst   func(n int64) int // node that block n goes to
	done  func(n int64)     // after the last burst of block n and its idle clocks

	n              int64 // block
	blockBytesLeft int   // bytes of it
	blocks         int64 // that are done
	retries        uint64
}

func (d dma) engine(s *sim.Sim, net *sci.Net, node, block int, dst func(n int64) int) *engine {
	d.clock += sim.Time(node) * d.quartz
	return &engine{
		dma:   d,
		s:     s,
		node:  net.Node(node),
		block: block,
		dst:   dst,
	}
}

// free lets the engine send blocks for ever, one after the other.
func (e *engine) free() {
	e.done = func(n int64) { e.start(n + 1) }
	e.start(0)
}

// start sends block n.
func (e *engine) start(n int64) {
	e.n, e.blockBytesLeft = n, e.block
	e.after(e.extra+e.setUp, (*firstWord)(e))
}

func (e *engine) after(clocks int, h sim.Handler) {
	e.s.ScheduleAfter(sim.Time(clocks)*e.clock, h, 0, 0)
}

type firstWord engine

// Handle: the card takes the burst, or refuses it and the engine tries again.
func (f *firstWord) Handle(int64, int64) {
	e := (*engine)(f)
	size := min(e.blockBytesLeft, e.piece)
	if !e.node.Send(e.dst(e.n), size, e.n, 0) {
		e.retries++
		e.after(e.refused+e.setUp, f)
		return
	}
	e.blockBytesLeft -= size
	e.after(size/8+e.idle, (*burstOver)(e))
}

type burstOver engine

func (b *burstOver) Handle(int64, int64) {
	e := (*engine)(b)
	if e.blockBytesLeft > 0 {
		e.after(e.setUp, (*firstWord)(e))
		return
	}
	e.blocks++
	e.done(e.n)
}

// meter counts what a node gets.
type meter struct {
	s     *sim.Sim
	n     uint64
	bytes uint64
	last  sim.Time
	gaps  sim.Histogram // between two packets
	delay sim.Histogram // from bus to bus
}

func watch(s *sim.Sim, node *sci.Node) *meter {
	m := &meter{s: s}
	node.To = m
	s.Show("from sending a packet until it is in memory", &m.delay)
	s.Show("from one packet in memory to the next", &m.gaps)
	return m
}

// Receive counts a packet.
func (m *meter) Receive(p *sci.Packet) {
	if m.n > 0 {
		m.gaps.Add(int64(m.s.Now() - m.last))
	}
	m.n, m.bytes, m.last = m.n+1, m.bytes+uint64(p.Size), m.s.Now()
	m.delay.Add(int64(m.s.Now() - p.Born))
}
