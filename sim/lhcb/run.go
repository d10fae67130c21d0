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
	"ringlet/tagnet/core"
)

// run is one run of the event builder; it is the model of its nodes.
type run struct {
	*builder.World
	c             *setup
	s             *sim.Sim
	trace         *sim.Trace
	nodes         []node
	discardedMEPs int
}

// node is the software of a folded node.
type node struct {
	sizeRandom   *sim.RandomStream
	jitterRandom *sim.RandomStream
	freeAt       sim.Time        // when the processor has handled all messages
	outputMEPs   []core.Feedback // MEPs that the output has or is given
}

// readAheadRounds is how many rounds a readout unit reads ahead of the round it sends.
const readAheadRounds = 2

func newRun(c *setup, env study.Env) *run {
	r := &run{
		c:     c,
		s:     env.Sim(),
		trace: env.Trace,
		nodes: make([]node, c.nodes),
	}
	for i := range r.nodes {
		r.nodes[i].sizeRandom = r.s.RandomStream("sizes of node " + strconv.Itoa(i))
		r.nodes[i].jitterRandom = r.s.RandomStream("jitter of node " + strconv.Itoa(i))
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
		Discipline:       &readoutunit.Disciplines[i],
		Barrier:          c.barrier,
		Seats:            readoutunit.Seats{RUs: order, BUs: slices.Clone(order)},
		RUs:              nodes[:c.nodes],
		BUs:              nodes[:c.nodes],
		Slots:            c.slots,
		Packing:          c.packing,
		RoundsAhead:      readAheadRounds,
		PullWindow:       c.requestCredit,
		MaxUnackedWrites: c.maxUnackedWrites,
		Hosts:            seats,
		SelfThroughCard:  true,
		SegmentBytes:     c.segment,
		WireBytes:        c.wireBytes,
		MessageDelay:     c.messageDelay,
		WindowDelay:      2 * c.messageDelay,
		AckDelay:         c.hop,
		WarmUpCycles:     c.warm,
		CountedCycles:    c.phases,
		Trace:            r.trace,
		Port: component.PortConfig{
			PerByte:     c.perByte,
			Latency:     c.hop,
			BufferBytes: int64(c.buffer),
			CutThrough:  true,
		},
	}
}

// PartSize draws a size when the MEP is read.
func (r *run) PartSize(ru int, _ uint64) int { return r.c.drawPartSize(ru, r.nodes[ru].sizeRandom) }

// PrepareDoneAt takes the time of the software, and jitter.
func (r *run) PrepareDoneAt(ru int) sim.Time {
	return r.s.Now() + r.c.softwareTime + r.c.drawJitter(r.nodes[ru].jitterRandom)
}

// SendDoneAt is now: the card sends, without the processor.
func (r *run) SendDoneAt(int, int, int) sim.Time { return r.s.Now() }

// ReceiveDoneAt is now, too.
func (r *run) ReceiveDoneAt(int, int, int, bool) sim.Time { return r.s.Now() }

// ResentBytes is 0: the network loses nothing.
func (r *run) ResentBytes(sim.Time, int, int32) int64 { return 0 }

// MessageDoneAt takes processor time for messages of barriers, one after the other.
func (r *run) MessageDoneAt(host int, of builder.MessageKind) sim.Time {
	n := &r.nodes[host]
	switch of {
	case builder.BarrierSignal:
		n.freeAt = max(n.freeAt, r.s.Now()) + r.c.messageCost
	case builder.LeaveBarrier:
		n.freeAt = max(n.freeAt, r.s.Now())
	default:
		return r.s.Now()
	}
	return n.freeAt
}

// Built handles a complete MEP. If the builder unit's output has no space, the MEP is discarded at once (LHCb-EB
// §IV.B).
func (r *run) Built(bu int, f core.Feedback) {
	n := &r.nodes[bu]
	switch c := r.c; {
	case bu >= c.slowBUs:
		r.SendFeedback(bu, f)
	case len(n.outputMEPs) == c.outputCapacity:
		f.Outcome = core.Discarded
		r.discardedMEPs++
		r.SendFeedback(bu, f)
	default:
		if n.outputMEPs = append(n.outputMEPs, f); len(n.outputMEPs) == 1 {
			r.s.ScheduleAfter(c.consumeTime, (*mepConsumed)(r), int64(bu), 0)
		}
	}
}

type mepConsumed run

// Handle: the output has written a MEP.
func (e *mepConsumed) Handle(bu, _ int64) {
	r := (*run)(e)
	n := &r.nodes[bu]
	r.SendFeedback(int(bu), n.outputMEPs[0])
	if n.outputMEPs = n.outputMEPs[1:]; len(n.outputMEPs) > 0 {
		r.s.ScheduleAfter(r.c.consumeTime, e, bu, 0)
	}
}
