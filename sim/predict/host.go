package predict

import (
	"ringlet/sim"
	"ringlet/sim/part"
)

// cpu is the cores of a host, or of the machine that all hosts share: what comes first is done first, by the core that
// is free first.
type cpu struct {
	s    *sim.Sim
	free []sim.Time // when each core is
	busy sim.Time
}

func newCPU(s *sim.Sim, cores int) *cpu { return &cpu{s: s, free: make([]sim.Time, cores)} }

// do says when work that is handed in now is done.
func (c *cpu) do(cost sim.Time) sim.Time {
	first := 0
	for i, t := range c.free {
		if t < c.free[first] {
			first = i
		}
	}
	c.busy += cost
	c.free[first] = max(c.free[first], c.s.Now()) + cost
	return c.free[first]
}

// host is a machine with a port.
type host struct {
	index   int
	cpu     *cpu
	out, in *part.Port // its card, and the port of the switch to it

	rus   []*ru
	turn  int // of them
	ahead int // segments in its card, and in work

	room    int64 // bytes that may be on their way to it, where senders find their rate
	waiting []*ru // who waits for room, in the order of asking
}

// tree is a folded Clos network of two layers, or one switch.
type tree struct {
	perLeaf, uplinks int
	up, down         []*part.Port // by leaf and link
}

// path is the ports from one host to another.
func (t *tree) path(from, to *host) []*part.Port {
	ports := []*part.Port{from.out}
	if t != nil && from.index/t.perLeaf != to.index/t.perLeaf {
		link := to.index % t.perLeaf % t.uplinks // as in 002, IV.A
		a, b := from.index/t.perLeaf, to.index/t.perLeaf
		ports = append(ports, t.up[a*t.uplinks+link], t.down[b*t.uplinks+link])
	}
	return append(ports, to.in)
}

// network makes the hosts, their ports and the switches.
func (w *world) network() {
	h := &w.f.Hosts
	n := h.Hosts
	if n == 0 {
		n = w.c.Nodes
	}
	cfg := part.PortConfig{
		PerByte:    w.perByte,
		Latency:    w.hop,
		CutThrough: true,
	}
	if h.Lossless {
		cfg.Buffer = w.queue
	}
	shared := newCPU(w.s, h.Cores)
	var leaves int
	if t := h.Tree; t != nil {
		leaves = (n + t.PerLeaf - 1) / t.PerLeaf
		w.tree = &tree{perLeaf: t.PerLeaf, uplinks: t.Spines * t.Links}
		for range leaves * w.tree.uplinks {
			w.tree.up = append(w.tree.up, part.NewPort(w.s, cfg))
			w.tree.down = append(w.tree.down, part.NewPort(w.s, cfg))
		}
	}
	for i := range n {
		x := &host{
			index: i,
			cpu:   shared,
			in:    part.NewPort(w.s, cfg),
			room:  w.queue,
		}
		if !h.Shared {
			x.cpu = newCPU(w.s, h.Cores)
		}
		card := cfg
		card.Buffer = 0 // it takes what its node gives it
		x.out = part.NewPort(w.s, card)
		x.out.Freed = (*left)(x)
		w.hosts = append(w.hosts, x)
	}
}
