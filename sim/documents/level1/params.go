package level1

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// Models lists the models of this package.
func Models() []study.Model {
	return []study.Model{
		packetLatency, longestPath, largestRing,
		engineAlone, interleavedEngines, manyToOne,
		tagnetChain,
		sideBySide, routeNode, rowPair,
		farmModel, farmColumns, systemLatency, torusToOne, eventSize, decisionsModel, stoppedProcess,
	}
}

// ReadNetwork reads the parameters of rings and cards.
func ReadNetwork(p *study.Params) sci.Config {
	c := sci.Config{
		SymbolTime:       p.Time("symbol"),
		HeaderSymbols:    p.Int("header-symbols", 1, 100),
		EchoSymbols:      p.Int("echo-symbols", 1, 100),
		IdleSymbols:      p.Int("idle-symbols", 0, 100),
		BypassTime:       p.Time("by-pass"),
		QuietTime:        p.Time("settle"),
		RoutingTime:      p.Time("routing"),
		PCIToPCI:         p.Time("pci-to-pci"),
		MaxData:          p.Size("packet", 8, 4096),
		MaxQueuedPerKind: p.Int("queue-of-a-kind", 1, 1<<16),
		MaxQueued:        p.Int("queue", 1, 1<<16),
		MaxStreams:       p.Int("streams", 1, 1<<16),
		MaxIncoming:      p.Int("receiving-packets", 1, 1<<16),
		WithResponses:    p.Word("responses", "yes", "no") == "yes",
		StarvationTime:   p.Time("starving"),
		BLinkClock:       p.Time("b-link-clock"),
		BLinkExtraBytes:  p.Size("b-link-extra", 0, 1024),
		BLinkTurnClocks:  p.Int("b-link-idle-clocks", 0, 100),
		QueueTurnClocks:  p.Int("queue-turn-clocks", 0, 1000),
		PCIClock:         p.Time("pci-clock"),
		PCIHeadClocks:    p.Int("pci-address-clocks", 0, 100),
		PCIGapClocks:     p.Int("pci-gap-clocks", 0, 1000),
	}
	if err := c.Check(); err != nil && p.Err() == nil {
		p.AddError("symbol", "%v", err)
	}
	return c
}

// dma has the parameters of a DMA engine, in clocks of its bus.
type dma struct {
	clock         sim.Time
	clockDrift    sim.Time // how much slower each node's clock is than the one before
	setUpClocks   int      // from the address to the first data word
	idleClocks    int      // between bursts
	refusedClocks int      // after the time of the first data word, if the card refuses the burst
	burstBytes    int      // bytes that a burst may have
}

// readDMA reads the parameters of DMA engines.
func readDMA(p *study.Params) dma {
	address, wait := p.Int("pci-address-clocks", 0, 100), p.Int("dma-wait-clocks", 0, 100)
	d := dma{
		clock:       p.Time("pci-clock"),
		clockDrift:  p.Time("quartz"),
		setUpClocks: address + wait,
		idleClocks:  p.Int("dma-idle-clocks", 0, 1000),
		burstBytes:  p.Size("packet", 8, 4096),
	}
	d.refusedClocks = p.Int("refused-clocks", d.setUpClocks, 1000) - d.setUpClocks + d.idleClocks
	if d.clock <= 0 {
		p.AddError("pci-clock", "must be above 0")
	}
	return d
}

// readDuration reads the simulated time of a model.
func readDuration(p *study.Params) sim.Time {
	t := p.Time("length")
	if t <= 0 {
		p.AddError("length", "must be above 0")
	}
	return t
}

// modelRun is a model under way: its environment and its outcome.
type modelRun struct {
	env study.Env
	out study.Outcome
}

// play runs a simulation until a time; 0 means to its end.
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
