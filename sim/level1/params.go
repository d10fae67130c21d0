package level1

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/sci"
	"ringlet/sim/study"
)

// Models are the models of this package.
func Models() []study.Model {
	return []study.Model{
		packetLatency, longestPath, largestRing,
		engineAlone, interleaved, manyToOne,
		tagnetChain,
		sideBySide, routeNode, rowPair,
		farmModel, farmColumns, systemLatency, torusToOne, eventSize, decisions, stoppedProcess,
	}
}

// Network reads what rings and cards are made of.
func Network(p *study.Params) sci.Config {
	c := sci.Config{
		Symbol:     p.Time("symbol"),
		Header:     p.Int("header-symbols", 1, 100),
		Echo:       p.Int("echo-symbols", 1, 100),
		Idle:       p.Int("idle-symbols", 0, 100),
		Bypass:     p.Time("by-pass"),
		QuietTime:  p.Time("settle"),
		Routing:    p.Time("routing"),
		PCIToPCI:   p.Time("pci-to-pci"),
		MaxData:    p.Size("packet", 8, 4096),
		Queue:      p.Int("queue-of-a-kind", 1, 1<<16),
		Total:      p.Int("queue", 1, 1<<16),
		Streams:    p.Int("streams", 1, 1<<16),
		Incoming:   p.Int("receiving-packets", 1, 1<<16),
		Response:   p.Word("responses", "yes", "no") == "yes",
		Starving:   p.Time("starving"),
		BLinkClock: p.Time("b-link-clock"),
		BLinkExtra: p.Size("b-link-extra", 0, 1024),
		BLinkTurn:  p.Int("b-link-idle-clocks", 0, 100),
		QueueTurn:  p.Int("queue-turn-clocks", 0, 1000),
		PCIClock:   p.Time("pci-clock"),
		PCIHead:    p.Int("pci-address-clocks", 0, 100),
		PCIGap:     p.Int("pci-gap-clocks", 0, 1000),
	}
	if err := c.Check(); err != nil && p.Err() == nil {
		p.Wrong("symbol", "%v", err)
	}
	return c
}

// dma is what an engine is made of: clocks of its bus.
type dma struct {
	clock   sim.Time
	quartz  sim.Time // by which each node's clock is slower than the one before
	setUp   int      // from the address to the first data word
	idle    int      // between bursts
	refused int      // after the place of the first data word of a burst that the card refuses
	piece   int      // bytes of a burst, at most
}

// engines reads what DMA engines are made of.
func engines(p *study.Params) dma {
	address, wait := p.Int("pci-address-clocks", 0, 100), p.Int("dma-wait-clocks", 0, 100)
	d := dma{
		clock:  p.Time("pci-clock"),
		quartz: p.Time("quartz"),
		setUp:  address + wait,
		idle:   p.Int("dma-idle-clocks", 0, 1000),
		piece:  p.Size("packet", 8, 4096),
	}
	d.refused = p.Int("refused-clocks", d.setUp, 1000) - d.setUp + d.idle
	if d.clock <= 0 {
		p.Wrong("pci-clock", "a clock takes time")
	}
	return d
}

// length reads how long a model runs.
func length(p *study.Params) sim.Time {
	t := p.Time("length")
	if t <= 0 {
		p.Wrong("length", "a run takes time")
	}
	return t
}

// modelRun is a model that is being played: what it has from its caller, and what it has to say.
type modelRun struct {
	env study.Env
	out study.Outcome
}

// play runs a simulation to a time; 0 is its end.
func (g *modelRun) play(ctx context.Context, s *sim.Sim, until sim.Time) error {
	end := s.Run(ctx, g.env.Limits(until))
	g.out.Events += s.Executed()
	if end == sim.Interrupted {
		return fmt.Errorf("the model was interrupted at %v: %w", s.Now(), context.Cause(ctx))
	}
	return nil
}

// addResult adds a result.
func (g *modelRun) addResult(value float64, of study.Dimension, name string, args ...any) {
	g.out.Add(fmt.Sprintf(name, args...), study.Q(value, of))
}
