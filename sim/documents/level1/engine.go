package level1

import (
	"ringlet/sim"
	"ringlet/sim/documents/sci"
)

// engine writes blocks by its own DMA, each cut into bursts. Its user starts one block at a time, or has it send blocks
// forever.
type engine struct {
	dma
	s                *sim.Sim
	node             *sci.Node
	block            int               // bytes of a block
	blockExtraClocks int               // clocks added to each block
	destinationOf    func(n int64) int // destination node of block n
	onBlockDone      func(n int64)     // called after the last burst of block n and its idle clocks

	currentBlock   int64
	blockBytesLeft int   // of the current block
	blocks         int64 // blocks sent
	retries        uint64
}

func (d dma) newEngine(s *sim.Sim, net *sci.Net, node, block int, dst func(n int64) int) *engine {
	d.clock += sim.Time(node) * d.clockDrift
	return &engine{
		dma:           d,
		s:             s,
		node:          net.Node(node),
		block:         block,
		destinationOf: dst,
	}
}

// sendForever sends blocks forever, one after the other.
func (e *engine) sendForever() {
	e.onBlockDone = func(n int64) { e.startBlock(n + 1) }
	e.startBlock(0)
}

// startBlock sends block n.
func (e *engine) startBlock(n int64) {
	e.currentBlock, e.blockBytesLeft = n, e.block
	e.afterClocks(e.blockExtraClocks+e.setUpClocks, (*firstWord)(e))
}

func (e *engine) afterClocks(clocks int, h sim.Handler) {
	e.s.ScheduleAfter(sim.Time(clocks)*e.clock, h, 0, 0)
}

type firstWord engine

// Handle: the card takes the burst, or refuses it and the engine tries again later.
func (f *firstWord) Handle(int64, int64) {
	e := (*engine)(f)
	size := min(e.blockBytesLeft, e.burstBytes)
	if !e.node.Send(e.destinationOf(e.currentBlock), size, e.currentBlock, 0) {
		e.retries++
		e.afterClocks(e.refusedClocks+e.setUpClocks, f)
		return
	}
	e.blockBytesLeft -= size
	e.afterClocks(size/8+e.idleClocks, (*burstOver)(e))
}

type burstOver engine

func (b *burstOver) Handle(int64, int64) {
	e := (*engine)(b)
	if e.blockBytesLeft > 0 {
		e.afterClocks(e.setUpClocks, (*firstWord)(e))
		return
	}
	e.blocks++
	e.onBlockDone(e.currentBlock)
}

// meter counts the packets that a node receives.
type meter struct {
	s       *sim.Sim
	packets uint64
	bytes   uint64
	lastAt  sim.Time
	gaps    sim.Histogram // between two packets
	delay   sim.Histogram // from bus to bus
}

func newMeter(s *sim.Sim, node *sci.Node) *meter {
	m := &meter{s: s}
	node.Receiver = m
	s.AddHistogram("from sending a packet until it is in memory", &m.delay)
	s.AddHistogram("from one packet in memory to the next", &m.gaps)
	return m
}

// Receive counts a packet.
func (m *meter) Receive(p *sci.Packet) {
	if m.packets > 0 {
		m.gaps.Add(int64(m.s.Now() - m.lastAt))
	}
	m.packets, m.bytes, m.lastAt = m.packets+1, m.bytes+uint64(p.Size), m.s.Now()
	m.delay.Add(int64(m.s.Now() - p.AcceptedAt))
}
