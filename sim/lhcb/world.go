package lhcb

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/part"
	"ringlet/sim/study"
	"ringlet/tagnet"
)

// world is one run.
type world struct {
	c     *setup
	s     *sim.Sim
	trace *sim.Trace
	tree  *tree
	pool  part.Pool
	nodes []*node
	seat  []int // of a node: where it is in the tree, and in the shift

	tagnet  *tagnet.Core
	batches []*tagnet.Batch // on their way to the readout units

	letters  mail[barrier.Message]
	requests mail[tagnet.Token]
	onRing   mail[tagnet.Tag]

	sent, placed uint64 // bytes of data
	parts        uint64 // placed whole
	messages     uint64 // of the barrier
	gone         int    // MEPs that were discarded
	from, to     mark
	err          error
	ending       bool // nobody begins anything any more

	landed func(from *node, place int64, to *node) // a whole part is at its builder unit
	places []uint64                                // scratch
	tags   []tagnet.Tag                            // scratch
}

// mark is how far a run was at a time.
type mark struct {
	at     sim.Time
	parts  uint64
	placed uint64
	spent  [numberOfDoings]sim.Time // by all nodes
}

// must keeps the first error of a core: the model has broken its rules.
func (w *world) must(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the model broke a rule of the product at %v: %w", w.s.Now(), err)
		w.s.Stop()
	}
}

// micros is the time as the barrier's core knows it.
func (w *world) micros() int64 { return int64(w.s.Now() / sim.Microsecond) }

// mail is what is on its way: an event carries its place.
type mail[T any] struct {
	things []T
	free   []int64
}

// put gives a thing a place.
func (m *mail[T]) put(x T) int64 {
	if n := len(m.free); n > 0 {
		at := m.free[n-1]
		m.free = m.free[:n-1]
		m.things[at] = x
		return at
	}
	m.things = append(m.things, x)
	return int64(len(m.things) - 1)
}

// get takes a thing from its place.
func (m *mail[T]) get(at int64) T {
	m.free = append(m.free, at)
	return m.things[at]
}

func newWorld(c *setup, env study.Env) (*world, error) {
	s := sim.New(env.Seed)
	seats := c.nodes + c.dummies
	w := &world{
		c:     c,
		s:     s,
		trace: env.Trace,
		tree:  newTree(seats, c.perLeaf, c.spines, c.links),
	}
	w.landed = w.whole
	w.tree.connect(s, seats, part.PortConfig{
		PerByte:    c.perByte,
		Latency:    c.hop,
		Buffer:     int64(c.buffer),
		CutThrough: true,
	})
	if err := w.open(seats); err != nil {
		return nil, err
	}
	return w, nil
}

// open makes the scheduler and the nodes.
func (w *world) open(seats int) error {
	c := w.c
	cfg := tagnet.Config{
		Slots:   c.slots,
		Packing: c.packing,
	}
	order := readoutunit.Seats{RUs: make([]int, seats), BUs: make([]int, seats)}
	for x := range seats {
		order.RUs[x], order.BUs[x] = readoutunit.Dummy, readoutunit.Dummy
		if x < c.nodes {
			order.RUs[x], order.BUs[x] = x, x
			w.seat = append(w.seat, x)
			cfg.RUs = append(cfg.RUs, "ru"+strconv.Itoa(x))
			cfg.BUs = append(cfg.BUs, "bu"+strconv.Itoa(x))
		}
	}
	if c.discipline == tagring {
		cfg.Ring, cfg.Bypass = true, true
	}
	var err error
	if w.tagnet, err = tagnet.NewCore(cfg); err != nil {
		return err
	}
	for i := range c.nodes {
		n := &node{
			w:     w,
			index: i,
			track: w.trace.Track("node " + strconv.Itoa(i)),
			order: w.order(i, order),
			draw:  w.s.Stream("sizes of node " + strconv.Itoa(i)),
			delay: w.s.Stream("jitter of node " + strconv.Itoa(i)),
			sizes: map[uint64]int{},
			got:   make([]int, c.slots),
		}
		if c.barrier != barrier.None {
			if n.gate, err = barrier.NewCore(c.barrier, c.nodes, i); err != nil {
				return err
			}
		}
		n.ring, _ = n.order.(readoutunit.Ring)
		w.nodes = append(w.nodes, n)
		w.tree.card[w.seat[i]].Freed = (*left)(n)
	}
	return nil
}

// order is the discipline at a readout unit. A barrier that holds nothing needs no fence before it.
func (w *world) order(ru int, seats readoutunit.Seats) readoutunit.Order {
	name := w.c.discipline
	i := slices.IndexFunc(readoutunit.Disciplines, func(d readoutunit.Discipline) bool { return d.Name == name })
	return readoutunit.Disciplines[i].Open(readoutunit.Traffic{
		RU:    ru,
		BUs:   w.c.nodes,
		Slots: w.c.slots,
		Seats: seats,
		Fence: w.c.barrier != barrier.None,
		Round: 1,
	})
}

// play runs it until it has counted enough.
func (w *world) play(ctx context.Context, env study.Env) error {
	w.tagnet.Start()
	for _, n := range w.nodes {
		w.s.At(0, (*held)(n), 0, 0)
	}
	w.s.Run(ctx, env.Limits(0))
	return w.err
}

// rounds is how many rounds a readout unit reads ahead of the one that it sends.
const rounds = 2

// read tells the scheduler how far a readout unit has read: so many rounds ahead.
func (w *world) read(n *node) { w.s.After(w.c.flight, (*held)(n), int64(n.cycles), 0) }

type held node

// Handle: the scheduler knows how far the readout unit has read.
func (e *held) Handle(cycles, _ int64) {
	n := (*node)(e)
	w := n.w
	mep := uint64(cycles+rounds) * uint64(w.tagnet.Places())
	w.must(w.tagnet.Update(n.index, tagnet.Update{Read: mep, Events: mep * uint64(w.c.packing)}))
	w.issue()
}

// issue sends the tokens that may go to all readout units.
func (w *world) issue() {
	b := &tagnet.Batch{}
	b.Reset(w.tagnet.NextCycle(), w.tagnet.Places())
	if w.tagnet.Issue(b) > 0 {
		w.batches = append(w.batches, b)
		w.s.After(w.c.flight, (*tokens)(w), 0, 0)
		w.launch()
	}
}

type tokens world

// Handle: tokens are at all readout units, which read the MEPs and announce their sizes.
func (e *tokens) Handle(_, _ int64) {
	w := (*world)(e)
	b := w.batches[0]
	for _, n := range w.nodes {
		for i := range b.Len() {
			w.must(n.order.Cycle(b, i))
		}
		for _, mep := range b.MEPs {
			if mep != tagnet.NoMEP {
				n.sizes[mep] = w.c.part(n.index, n.draw)
			}
		}
	}
	w.s.After(2*w.c.flight, (*windows)(w), 0, 0)
}

type windows world

// Handle: the builder units have had all sizes, and their windows are at the readout units: all of them, or those that
// they ask for at first.
func (e *windows) Handle(_, _ int64) {
	w := (*world)(e)
	b := w.batches[0]
	w.batches = w.batches[1:]
	for i := range b.Len() {
		for p := range b.Places {
			t, ok := b.Token(i, p)
			if !ok {
				continue
			}
			if w.c.discipline == pull {
				w.nodes[p].wants(t)
				continue
			}
			for _, n := range w.nodes {
				n.grant(&t)
			}
		}
	}
	for _, n := range w.nodes {
		n.step()
		n.forward()
	}
}

// grant gives a readout unit the window for its part.
func (n *node) grant(t *tagnet.Token) {
	n.w.must(n.order.Grant(int(t.BU), &placing.Grant{
		Slot:    t.Slot,
		Attempt: uint32(t.Attempt),
		MEP:     t.MEP,
		Window:  1,
		Gen:     1,
		Length:  uint32(n.sizes[t.MEP]),
	}))
}

// wish is a MEP of which a builder unit has asked for some parts.
type wish struct {
	tagnet.Token
	asked int // readout units, the one with its own index first
}

// wants has a builder unit ask for the parts of one more MEP.
func (n *node) wants(t tagnet.Token) {
	n.wishes = append(n.wishes, wish{Token: t})
	n.ask()
}

// ask asks for parts of the oldest MEP, one after the other and as many at a time as there is credit.
func (n *node) ask() {
	for len(n.wishes) > 0 && n.asking < n.w.c.credit {
		x := &n.wishes[0]
		n.asking++
		ru := (n.index + x.asked) % len(n.w.nodes)
		n.w.s.After(n.w.c.flight, (*asked)(n.w.nodes[ru]), n.w.requests.put(x.Token), 0)
		if x.asked++; x.asked == len(n.w.nodes) {
			n.wishes = n.wishes[1:]
		}
	}
}

type asked node

// Handle: a builder unit asks this readout unit for a part.
func (e *asked) Handle(token, _ int64) {
	n := (*node)(e)
	t := n.w.requests.get(token)
	n.grant(&t)
	n.step()
}

// complete has all parts of a MEP in a slot of the builder unit. One that its output has no room for is discarded at
// once (002:217).
func (n *node) complete(t tagnet.Token) {
	f := tagnet.Feedback{
		MEP:     t.MEP,
		Slot:    t.Slot,
		Events:  uint32(n.w.c.packing),
		Attempt: t.Attempt,
		Outcome: tagnet.Built,
	}
	switch c := n.w.c; {
	case n.index >= c.slow:
		n.w.feedback(n, f)
	case len(n.kept) == c.output:
		f.Outcome = tagnet.Discarded
		n.w.gone++
		n.w.feedback(n, f)
	default:
		if n.kept = append(n.kept, f); len(n.kept) == 1 {
			n.w.s.After(c.consume, (*taken)(n), 0, 0)
		}
	}
}

type taken node

// Handle: the output has a MEP.
func (e *taken) Handle(_, _ int64) {
	n := (*node)(e)
	n.w.feedback(n, n.kept[0])
	if n.kept = n.kept[1:]; len(n.kept) > 0 {
		n.w.s.After(n.w.c.consume, (*taken)(n), 0, 0)
	}
}

// feedback tells the scheduler the outcome of a MEP.
func (w *world) feedback(n *node, f tagnet.Feedback) {
	w.must(w.tagnet.Feedback(n.index, f))
	w.issue()
}

// count ends the run when it has counted enough: parts of so many phases.
func (w *world) count() {
	n := uint64(len(w.nodes))
	switch w.parts {
	case n * uint64(w.c.warm):
		w.from = w.mark()
	case n * uint64(w.c.warm+w.c.phases):
		w.to = w.mark()
		w.s.Stop()
	}
}

func (w *world) mark() mark {
	m := mark{at: w.s.Now(), parts: w.parts, placed: w.placed}
	for _, n := range w.nodes {
		n.begin(n.doing)
		for d, t := range n.spent {
			m.spent[d] += t
		}
	}
	return m
}
