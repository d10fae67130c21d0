package lhcb

import (
	"slices"
	"strconv"

	"ringlet/lab/topology"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/builder"
	"ringlet/sim/component"
	"ringlet/sim/study"
	"ringlet/tagnet"
)

// run is one run of the event builder, and what its nodes take.
type run struct {
	*builder.World
	c     *setup
	s     *sim.Sim
	trace *sim.Trace
	nodes []node
	gone  int // MEPs that were discarded
}

// node is a folded node's software.
type node struct {
	draw  *sim.Stream       // sizes
	delay *sim.Stream       // jitter
	free  sim.Time          // when the processor has handled all messages
	kept  []tagnet.Feedback // MEPs that the output has, or will have
}

// ahead is how many rounds a readout unit reads ahead of the one that it sends.
const ahead = 2

func newRun(c *setup, env study.Env) *run {
	r := &run{
		c:     c,
		s:     env.Sim(),
		trace: env.Trace,
		nodes: make([]node, c.nodes),
	}
	for i := range r.nodes {
		r.nodes[i].draw = r.s.Stream("sizes of node " + strconv.Itoa(i))
		r.nodes[i].delay = r.s.Stream("jitter of node " + strconv.Itoa(i))
	}
	return r
}

// open makes a run of the event builder.
func open(c *setup, env study.Env) (*run, error) {
	r := newRun(c, env)
	cfg := r.config()
	cfg.Topology = topology.FatTree(cfg.Hosts, c.perLeaf, c.spines, c.links)
	var err error
	r.World, err = builder.New(r.s, cfg, r)
	return r, err
}

// config is the network and the units: a node at each seat but the last ones, which are dummies.
func (r *run) config() *builder.Config {
	c := r.c
	seats := c.nodes + c.dummies
	nodes, order := make([]int, seats), make([]int, seats)
	for x := range seats {
		if nodes[x], order[x] = x, x; x >= c.nodes {
			order[x] = readoutunit.Dummy
		}
	}
	named := func(d readoutunit.Discipline) bool { return d.Name == c.discipline }
	i := max(0, slices.IndexFunc(readoutunit.Disciplines, named))
	return &builder.Config{
		Discipline: &readoutunit.Disciplines[i],
		Barrier:    c.barrier,
		Seats:      readoutunit.Seats{RUs: order, BUs: slices.Clone(order)},
		RUs:        nodes[:c.nodes],
		BUs:        nodes[:c.nodes],
		Slots:      c.slots,
		Packing:    c.packing,
		Ahead:      ahead,
		Window:     c.credit,
		Writes:     c.writes,
		Hosts:      seats,
		Card:       true,
		Segment:    c.segment,
		Wire:       c.wire,
		Flight:     c.flight,
		Windows:    2 * c.flight,
		Ack:        c.hop,
		Warm:       c.warm,
		Count:      c.phases,
		Trace:      r.trace,
		Port: component.PortConfig{
			PerByte:    c.perByte,
			Latency:    c.hop,
			Buffer:     int64(c.buffer),
			CutThrough: true,
		},
	}
}

// Size is drawn when the MEP is read.
func (r *run) Size(ru int, _ uint64) int { return r.c.partSize(ru, r.nodes[ru].draw) }

// Prepare is software, and the jitter of an operating system.
func (r *run) Prepare(ru int) sim.Time {
	return r.s.Now() + r.c.software + r.c.delay(r.nodes[ru].delay)
}

// Send is the card's, which takes no processor.
func (r *run) Send(int, int, int) sim.Time { return r.s.Now() }

// Receive is the card's, too.
func (r *run) Receive(int, int, int, bool) sim.Time { return r.s.Now() }

// ResentBytes is nothing: the network loses nothing.
func (r *run) ResentBytes(sim.Time, int, int32) int64 { return 0 }

// Message takes the processor for those of barriers, one after the other.
func (r *run) Message(host int, of builder.Message) sim.Time {
	n := &r.nodes[host]
	switch of {
	case builder.Signal:
		n.free = max(n.free, r.s.Now()) + r.c.cost
	case builder.Leave:
		n.free = max(n.free, r.s.Now())
	default:
		return r.s.Now()
	}
	return n.free
}

// Built has all parts of a MEP in a slot of the builder unit. One that its output has no room for is discarded at once
// (LHCb-EB §IV.B).
func (r *run) Built(bu int, f tagnet.Feedback) {
	n := &r.nodes[bu]
	switch c := r.c; {
	case bu >= c.slow:
		r.Feedback(bu, f)
	case len(n.kept) == c.output:
		f.Outcome = tagnet.Discarded
		r.gone++
		r.Feedback(bu, f)
	default:
		if n.kept = append(n.kept, f); len(n.kept) == 1 {
			r.s.ScheduleAfter(c.consume, (*consumed)(r), int64(bu), 0)
		}
	}
}

type consumed run

// Handle: the output has a MEP.
func (e *consumed) Handle(bu, _ int64) {
	r := (*run)(e)
	n := &r.nodes[bu]
	r.Feedback(int(bu), n.kept[0])
	if n.kept = n.kept[1:]; len(n.kept) > 0 {
		r.s.ScheduleAfter(r.c.consume, e, bu, 0)
	}
}
