package predict

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"ringlet/barrier"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/part"
	"ringlet/sim/study"
	"ringlet/tagnet"
)

// world is one run.
type world struct {
	f     *File
	c     Setup
	costs Costs
	s     *sim.Sim

	perByte, hop sim.Time
	queue        int64
	packet       int // bytes of data in one
	segment      int // bytes of data that the model moves at a time
	slots        int // those that memory has room for, too

	hosts []*host
	tree  *tree
	pool  part.Pool
	rus   []*ru
	bus   []*bu

	tagnet  *tagnet.Core
	batches mail[*tagnet.Batch]
	letters mail[barrier.Message]
	asks    mail[tagnet.Token]
	onRing  mail[tagnet.Tag]
	tags    []tagnet.Tag
	read    uint64
	issued  map[uint64]sim.Time // MEPs that are not built: when their token went out
	places  []uint64

	warm, count  int // MEPs that are left out, and counted
	parts, built int
	begun, ended sim.Time
	work         sim.Time // of all processors, until then
	latency      sim.Histogram
	barriers     sim.Histogram
	sent, placed uint64
	err          error
}

// mail is what is on its way: an event carries its place.
type mail[T any] struct {
	things []T
	free   []int64
}

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

func (m *mail[T]) get(at int64) T {
	m.free = append(m.free, at)
	return m.things[at]
}

// must keeps the first error of a core: the model has broken its rules.
func (w *world) must(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the model broke a rule of the product at %v: %w", w.s.Now(), err)
		w.s.Stop()
	}
}

func or(q *study.Quantity, value float64) float64 {
	if q == nil {
		return value
	}
	return q.Value
}

// transportHeaders is the least that IP and UDP take of a packet's MTU.
const transportHeaders = 28

func newWorld(f *File, c Setup, costs Costs) (*world, error) {
	w := &world{
		f:       f,
		c:       c,
		costs:   costs,
		s:       sim.New(f.Seed),
		perByte: max(1, ticks(1/or(f.Hosts.Port, 0))),
		hop:     ticks(or(f.Hosts.Latency, 1e-6)),
		queue:   int64(or(f.Hosts.Queue, 1e6)),
		packet:  int(or(f.Hosts.MTU, 1500)) - transportHeaders,
		issued:  map[uint64]sim.Time{},
	}
	if err := c.division().Check(); err != nil {
		return nil, err
	}
	rule, err := w.rule()
	if err != nil {
		return nil, err
	}
	for i := range c.RUs {
		w.rus = append(w.rus, &ru{w: w, index: i, part: w.partSize(rule, i)})
	}
	w.fit()
	w.network()
	return w, w.open()
}

// rule makes the sizes of fragments.
func (w *world) rule() (*pattern.Pattern, error) {
	model, err := pattern.ParseModel(w.c.Model)
	if err != nil {
		return nil, err
	}
	return pattern.New(pattern.Config{
		Seed:         1,
		Sources:      w.c.division().Sources(),
		FragmentSize: w.c.FragmentSize,
		Model:        model,
	})
}

// partSize is what a readout unit sends of a MEP: the fragments' mean, with the packets' headers.
func (w *world) partSize(rule *pattern.Pattern, ru int) int {
	size, d := 0.0, w.c.division()
	for k := range d.Count(ru) {
		const sample = 500
		for ev := range uint64(sample) {
			size += float64(rule.Size(uint16(d.First(ru)+k), ev)) / sample * float64(w.c.Packing)
		}
		size += float64(event.MFPHeaderSize(w.c.Packing))
	}
	return int(size)
}

// fit says how long a run is, how finely data moves, and how many slots memory has room for.
func (w *world) fit() {
	c := &w.c
	whole := 0
	for _, r := range w.rus {
		whole += r.part
	}
	w.slots = c.Slots
	if m := w.f.Hosts.Memory; m != nil {
		w.slots = max(1, min(w.slots, int(m.Value/float64(max(1, whole))*float64(w.hostCount())/float64(c.BUs))))
	}
	phases := max(c.RUs, c.BUs)
	pieces, rounds := 16, max(2, 64/phases/w.slots)*w.slots
	switch {
	case phases > 256:
		pieces, rounds = 3, 1
	case phases > 32:
		pieces, rounds = 6, 2
	}
	w.segment = max(w.packet, whole/c.RUs/pieces)
	w.queue = max(w.queue, int64(2*w.wire(w.segment)))
	w.warm, w.count = max(1, min(rounds/2, w.slots))*c.BUs, rounds*c.BUs
	if c.SuspendFor > 0 {
		w.warm, w.count = 0, math.MaxInt/c.RUs
	}
}

func (w *world) hostCount() int {
	if n := w.f.Hosts.Hosts; n > 0 {
		return n
	}
	return w.c.Nodes
}

// packets is how many so many bytes take.
func (w *world) packets(data int) int { return max(1, (data+w.packet-1)/w.packet) }

// wire is how many bytes so many take with their headers.
func (w *world) wire(data int) int32 {
	return int32(float64(data) + float64(w.packets(data))*w.costs.Header)
}

// open makes the scheduler and the units.
func (w *world) open() error {
	c, d := &w.c, w.c.discipline()
	cfg := tagnet.Config{
		Slots:     w.slots,
		LookAhead: min(c.LookAhead, w.slots),
		Packing:   c.Packing,
		Ring:      d.Tags,
		Bypass:    d.Bypass,
	}
	kind := c.barrier()
	for i, r := range w.rus {
		cfg.RUs = append(cfg.RUs, "ru"+strconv.Itoa(i))
		r.host = w.hosts[i%len(w.hosts)]
		r.host.rus = append(r.host.rus, r)
		r.order = d.Open(readoutunit.Traffic{
			RU:    i,
			BUs:   c.BUs,
			Slots: w.slots,
			Seats: readoutunit.InOrder(c.RUs, c.BUs),
			Fence: kind != barrier.None,
			Round: 1,
		})
		r.ring, _ = r.order.(readoutunit.Ring)
		if kind != barrier.None {
			var err error
			if r.gate, err = barrier.NewCore(kind, c.RUs, i); err != nil {
				return err
			}
		}
	}
	first := 0
	if c.Nodes >= c.RUs+c.BUs { // not folded
		first = c.RUs
	}
	for j := range c.BUs {
		cfg.BUs = append(cfg.BUs, "bu"+strconv.Itoa(j))
		b := &bu{
			w:     w,
			index: j,
			host:  w.hosts[(first+j)%len(w.hosts)],
			got:   make([]int, w.slots),
		}
		w.bus = append(w.bus, b)
	}
	var err error
	w.tagnet, err = tagnet.NewCore(cfg)
	return err
}

// play runs it until it has counted enough.
func (w *world) play(ctx context.Context) error {
	w.tagnet.Start()
	w.s.At(0, (*reading)(w), 0, 0)
	limits := sim.Limits{}
	if w.c.SuspendFor > 0 {
		limits.Until = sim.Of(w.c.Duration)
		w.suspend()
	}
	end := w.s.Run(ctx, limits)
	if w.err == nil && end == sim.Idle {
		w.err = fmt.Errorf("nothing goes on after %d of %d MEPs, at %v", w.built, w.warm+w.count, w.s.Now())
	}
	if w.ended == 0 {
		w.ended = w.s.Now()
	}
	if w.err == nil {
		w.err = ctx.Err()
	}
	return w.err
}

type reading world

// Handle: readout units have read MEPs, as many as are needed, or as come.
func (e *reading) Handle(_, _ int64) {
	w := (*world)(e)
	w.read++
	if w.c.Rate == 0 {
		w.read += uint64(2 * w.c.BUs * w.slots)
	}
	for i := range w.rus {
		w.must(w.tagnet.Update(i, tagnet.Update{Read: w.read, Events: w.read * uint64(w.c.Packing)}))
	}
	if w.c.Rate > 0 {
		w.s.After(ticks(float64(w.c.Packing)/w.c.Rate), e, 0, 0)
	}
	w.issue()
}

// issue sends the tokens that may go to all readout units.
func (w *world) issue() {
	b := &tagnet.Batch{}
	b.Reset(w.tagnet.NextCycle(), w.tagnet.Places())
	if w.tagnet.Issue(b) == 0 {
		return
	}
	for _, mep := range b.MEPs {
		if mep != tagnet.NoMEP {
			w.issued[mep] = w.s.Now()
		}
	}
	w.s.After(w.flight(), (*tokens)(w), w.batches.put(b), 0)
	w.launch()
}

// flight is how long a message takes besides the work at its ends.
func (w *world) flight() sim.Time { return w.hop + ticks(w.costs.Flight) }

type tokens world

// Handle: tokens are at all readout units. Windows stand, or builder units ask.
func (e *tokens) Handle(at, _ int64) {
	w := (*world)(e)
	b := w.batches.get(at)
	for _, r := range w.rus {
		for i := range b.Len() {
			w.must(r.order.Cycle(b, i))
		}
	}
	for i := range b.Len() {
		for p := range b.Places {
			t, ok := b.Token(i, p)
			switch {
			case !ok:
			case w.c.discipline().Pull:
				w.bus[p].wants(t)
			default:
				for _, r := range w.rus {
					r.grant(&t)
				}
			}
		}
	}
	for _, r := range w.rus {
		r.serve()
	}
}

// grant gives a readout unit the window for its part.
func (r *ru) grant(t *tagnet.Token) {
	r.w.must(r.order.Grant(int(t.BU), &placing.Grant{
		Slot:    t.Slot,
		Attempt: uint32(t.Attempt),
		MEP:     t.MEP,
		Window:  1,
		Gen:     1,
		Length:  uint32(r.size(t.MEP)),
	}))
}

// size is a readout unit's part of a MEP.
func (r *ru) size(mep uint64) int {
	c := &r.w.c
	if n := uint64(c.LargeEvery); n > 0 && r.index == c.LargeRU && mep%n == n-1 {
		return r.part * c.LargeFactor
	}
	return r.part
}
