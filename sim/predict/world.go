package predict

import (
	"context"
	"fmt"
	"math"

	"ringlet/barrier"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/builder"
	"ringlet/sim/component"
	"ringlet/sim/study"
	"ringlet/tagnet"
)

// world is one run on a user's cluster.
type world struct {
	*builder.World
	f     *File
	c     Setup
	costs Costs
	means Carrier // of the carrier between nodes
	s     *sim.Sim

	perByte, hop sim.Time
	packet       int // bytes of data in one between hosts
	segment      int // bytes of data that the model moves at a time
	slots        int // those that memory has room for, too
	parts        []int
	warm, count  int // MEPs that are left out, and counted

	processors []*processor // by host
	read       uint64       // MEPs, where a rate is offered
	until      []sim.Time   // by builder unit: suspended
	kept       [][]tagnet.Feedback
}

// processor is the cores of a host, or of the machine that all hosts share: what comes first is done first, by the core
// that is free first.
type processor struct {
	s      *sim.Sim
	slower float64    // than cores that nobody else uses
	free   []sim.Time // when each core is
	busy   sim.Time
}

// do says when work that is handed in now is done, in seconds of a core that nobody else uses.
func (p *processor) do(seconds float64) sim.Time {
	cost := ticks(seconds * p.slower)
	first := 0
	for i, t := range p.free {
		if t < p.free[first] {
			first = i
		}
	}
	p.busy += cost
	p.free[first] = max(p.free[first], p.s.Now()) + cost
	return p.free[first]
}

func orDefault(q *study.Quantity, value float64) float64 {
	if q == nil {
		return value
	}
	return q.Value
}

// What a packet has besides data. A packet of 8,972 bytes of UDP bears 8,885 bytes of data (ringlet bench carriers,
// 2026-11-24): QUIC's header and tag, the frame's and the chunk's header.
const (
	inPacket = 20 + 8 + 8972 - 8885 // of the MTU: IP, UDP and ours
	onWire   = 14 + inPacket        // and Ethernet's
)

func newWorld(f *File, c Setup, costs Costs) (*world, error) {
	w := &world{
		f:      f,
		c:      c,
		costs:  costs,
		means:  costs.carrier(c.Transport),
		s:      sim.New(f.Seed),
		hop:    ticks(orDefault(f.Hosts.Latency, 1e-6)),
		packet: int(orDefault(f.Hosts.MTU, 1500)) - inPacket,
		until:  make([]sim.Time, c.BUs),
		kept:   make([][]tagnet.Feedback, c.BUs),
	}
	w.perByte = max(1, ticks(1/orDefault(f.Hosts.Port, math.Inf(1))))
	if d := int(w.means.Datagram); d > 0 {
		w.packet = min(w.packet, d)
	}
	if err := c.division().Check(); err != nil {
		return nil, err
	}
	rule, err := w.rule()
	if err != nil {
		return nil, err
	}
	for i := range c.RUs {
		w.parts = append(w.parts, w.partSize(rule, i))
	}
	w.fitRun()
	if t := f.network; t != nil && len(t.Nodes) < w.hosts() {
		return nil, &placesError{File: f.Hosts.Topology, Have: len(t.Nodes), Needs: w.hosts()}
	}
	shared := w.cores()
	for range w.hosts() {
		w.processors = append(w.processors, shared)
		if !f.Hosts.Shared {
			shared = w.cores()
		}
	}
	w.World, err = builder.New(w.s, w.config(), w)
	return w, err
}

func (w *world) cores() *processor {
	return &processor{
		s:      w.s,
		slower: 1 + w.costs.Others,
		free:   make([]sim.Time, w.f.Hosts.Cores),
	}
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

// fitRun says how long a run is, how finely data moves, and how many slots memory has room for.
func (w *world) fitRun() {
	c := &w.c
	eventBytes := 0
	for _, part := range w.parts {
		eventBytes += part
	}
	w.slots = c.Slots
	if m := w.f.Hosts.Memory; m != nil {
		w.slots = max(1, min(w.slots, int(m.Value/float64(max(1, eventBytes))*float64(w.hosts())/float64(c.BUs))))
	}
	phases := max(c.RUs, c.BUs)
	pieces, rounds := 16, max(2, 64/phases/w.slots)*w.slots
	switch {
	case phases > 256:
		pieces, rounds = 3, 1
	case phases > 32:
		pieces, rounds = 6, 2
	}
	w.segment = max(w.packet, eventBytes/c.RUs/pieces)
	w.warm, w.count = max(1, min(rounds/2, w.slots))*c.BUs, rounds*c.BUs
	if c.SuspendFor > 0 {
		w.warm, w.count = 0, 0
	}
}

func (w *world) hosts() int {
	if n := w.f.Hosts.Hosts; n > 0 {
		return n
	}
	return w.c.Nodes
}

// rank is the node of a unit: readout units have the first ones and builder units the last.
func (w *world) rank(bu int) int { return w.c.Nodes - w.c.BUs + bu }

func (w *world) config() *builder.Config {
	c, d := &w.c, w.c.discipline()
	cfg := &builder.Config{
		Discipline: d,
		Barrier:    c.barrier(),
		Seats:      readoutunit.SeatsInOrder(c.RUs, c.BUs),
		Slots:      w.slots,
		LookAhead:  min(c.LookAhead, w.slots),
		Packing:    c.Packing,
		Window:     c.PullWindow,
		Hosts:      w.hosts(),
		Topology:   w.f.network,
		Segment:    w.segment,
		Wire:       w.wire,
		Flight:     w.hop + ticks(w.costs.Flight),
		Ack:        w.hop + ticks(w.costs.Flight),
		Warm:       w.warm,
		Count:      w.count,
		Port: component.PortConfig{
			PerByte:    sim.Time(math.Round(float64(w.perByte) * (1 + w.costs.Idle))),
			Latency:    w.hop,
			CutThrough: true,
		},
	}
	for i := range c.RUs {
		cfg.RUs = append(cfg.RUs, i%w.hosts())
	}
	for j := range c.BUs {
		cfg.BUs = append(cfg.BUs, w.rank(j)%w.hosts())
	}
	queueBytes := max(int64(orDefault(w.f.Hosts.Queue, 1e6)), int64(2*w.wire(w.segment)))
	if w.f.Hosts.Lossless {
		cfg.Port.Buffer = queueBytes
	} else {
		cfg.InFlightLimit = queueBytes
	}
	return cfg
}

// packets is how many of a size so many bytes take.
func packets(data, size int) float64 { return float64(max(1, (data+size-1)/size)) }

// wire is how many bytes so many take with their headers.
func (w *world) wire(data int) int32 {
	return int32(float64(data) + packets(data, w.packet)*onWire)
}

// play runs it until it has counted enough.
func (w *world) play(ctx context.Context) error {
	w.s.ScheduleAt(0, (*reading)(w), 0, 0)
	limits := sim.Limits{}
	if w.c.SuspendFor > 0 {
		limits.Until = sim.FromDuration(w.c.Duration)
		w.suspend()
	}
	end, err := w.Play(ctx, limits)
	if err == nil && end == sim.Idle {
		err = fmt.Errorf("nothing goes on at %v, though %d MEPs are not counted yet", w.s.Now(), w.count)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// endlessMEPs is more MEPs than a run builds.
const endlessMEPs = 1 << 32

type reading world

// Handle: readout units have read MEPs, all that there are, or as they come.
func (e *reading) Handle(_, _ int64) {
	w := (*world)(e)
	if w.read++; w.c.Rate == 0 {
		w.read = endlessMEPs
	} else {
		w.s.ScheduleAfter(ticks(float64(w.c.Packing)/w.c.Rate), e, 0, 0)
	}
	w.ReportRead(w.read)
}

// Size is a readout unit's part of a MEP.
func (w *world) Size(ru int, mep uint64) int {
	c := &w.c
	if n := uint64(c.LargeEvery); n > 0 && ru == c.LargeRU && mep%n == n-1 {
		return w.parts[ru] * c.LargeFactor
	}
	return w.parts[ru]
}

// Prepare makes a write.
func (w *world) Prepare(ru int) sim.Time {
	return w.processors[ru%w.hosts()].do(w.costs.Part + w.means.Part)
}

// moveCost is what moving bytes takes of a core at one end: within a node they are copied, within a host they go by the
// carrier alone, and between hosts through a card as well.
func (w *world) moveCost(ru, bu, bytes int) float64 {
	node, size := w.rank(bu), w.packet
	data, each := w.means.Byte, w.means.Packet
	switch {
	case ru == node:
		data, each = w.costs.carrier(local).Byte, 0
	case ru%w.hosts() != node%w.hosts():
		data, each = data+w.costs.Byte, each+w.costs.Packet
	case w.means.Datagram > 0:
		size = int(w.means.Datagram)
	}
	return packets(bytes, size)*each + float64(bytes)*data
}

// Send makes the packets of a segment.
func (w *world) Send(ru, bu, bytes int) sim.Time {
	return w.processors[ru%w.hosts()].do(w.moveCost(ru, bu, bytes))
}

// Receive places them; the last acknowledges the part.
func (w *world) Receive(ru, bu, bytes int, last bool) sim.Time {
	cost := w.moveCost(ru, bu, bytes)
	if last {
		cost += w.costs.Part + w.means.Part
	}
	return w.processors[w.rank(bu)%w.hosts()].do(cost)
}

// Message takes the processor at each end. Who leaves a barrier waits for it, too.
func (w *world) Message(host int, of builder.Message) sim.Time {
	if of == builder.Leave {
		return w.processors[host].do(0)
	}
	return w.processors[host].do(w.costs.Message)
}

// ResentBytes is how many bytes are sent once more, since packets of a segment have waited for too long: after a time,
// after twice as long, and so on. Packets of several senders to a port take turns, so each of a segment waits for its
// share of the time. Where switches lose nothing, senders wait for them.
func (w *world) ResentBytes(waited sim.Time, data int, size int32) int64 {
	each := waited.Seconds() / packets(data, w.packet)
	if w.f.Hosts.Lossless || each < w.costs.RetransmitTimeout {
		return 0
	}
	return int64(math.Log2(each/w.costs.RetransmitTimeout+1)) * int64(size)
}

// Built has all parts of a MEP in a slot of the builder unit. One that is suspended keeps it.
func (w *world) Built(bu int, f tagnet.Feedback) {
	if w.s.Now() < w.until[bu] {
		w.kept[bu] = append(w.kept[bu], f)
		return
	}
	w.Feedback(bu, f)
}

// busy is what all processors have worked.
func (w *world) busy() (all sim.Time) {
	for i, p := range w.processors {
		if i == 0 || !w.f.Hosts.Shared {
			all += p.busy
		}
	}
	return all
}

// suspend stops a builder unit at a time, as the product's builderunit.Suspension does: a suspension lasts until a
// whole number of the time between them has passed.
func (w *world) suspend() {
	every, lasts := sim.FromDuration(w.c.SuspendEvery), sim.FromDuration(w.c.SuspendFor)
	for n := range int(w.c.Duration/w.c.SuspendEvery) + 1 {
		bu := int64(n % w.c.BUs)
		end := sim.Time(n+1) * every
		w.s.ScheduleAt(end-lasts, (*suspended)(w), bu, int64(end))
		w.s.ScheduleAt(end, (*resumed)(w), bu, 0)
	}
}

type suspended world

// Handle: the builder unit is suspended.
func (e *suspended) Handle(bu, until int64) { e.until[bu] = sim.Time(until) }

type resumed world

// Handle: the builder unit takes what it has kept.
func (e *resumed) Handle(bu, _ int64) {
	kept := e.kept[bu]
	e.kept[bu] = nil
	for _, f := range kept {
		e.Feedback(int(bu), f)
	}
}

// none says whether the phases end without a barrier.
func (c *Setup) none() bool { return c.barrier() == barrier.None }
