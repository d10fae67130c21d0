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
	"ringlet/tagnet/core"
)

// world is one run on a user's cluster.
type world struct {
	*builder.World
	f           *File
	c           Setup
	costs       Costs
	nodeCarrier Carrier // of the carrier between nodes
	s           *sim.Sim

	perByte, hop            sim.Time
	packet                  int // bytes of data in one between hosts
	segment                 int // bytes of data that the model moves at a time
	slots                   int // those that memory has room for, too
	partBytes               []int
	warmUpMEPs, countedMEPs int // MEPs that are left out, and counted

	processors     []*processor // by host
	mepsRead       uint64       // MEPs, where a rate is offered
	suspendedUntil []sim.Time   // by builder unit: suspended
	keptFeedback   [][]core.Feedback
}

// processor is the cores of a host, or of the machine that all hosts share: what comes first is done first, by the core
// that is free first.
type processor struct {
	s          *sim.Sim
	slowdown   float64    // than cores that nobody else uses
	coreFreeAt []sim.Time // when each core is
	busy       sim.Time
}

// scheduleWork says when work that is handed in now is done, in seconds of a core that nobody else uses.
func (p *processor) scheduleWork(seconds float64) sim.Time {
	cost := ticks(seconds * p.slowdown)
	first := 0
	for i, t := range p.coreFreeAt {
		if t < p.coreFreeAt[first] {
			first = i
		}
	}
	p.busy += cost
	p.coreFreeAt[first] = max(p.coreFreeAt[first], p.s.Now()) + cost
	return p.coreFreeAt[first]
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
	packetOverhead = 20 + 8 + 8972 - 8885 // of the MTU: IP, UDP and ours
	wireOverhead   = 14 + packetOverhead  // and Ethernet's
)

func newWorld(f *File, c Setup, costs Costs) (*world, error) {
	w := &world{
		f:              f,
		c:              c,
		costs:          costs,
		nodeCarrier:    costs.carrier(c.Transport),
		s:              sim.New(f.Seed),
		hop:            ticks(orDefault(f.Hosts.Latency, 1e-6)),
		packet:         int(orDefault(f.Hosts.MTU, 1500)) - packetOverhead,
		suspendedUntil: make([]sim.Time, c.BUs),
		keptFeedback:   make([][]core.Feedback, c.BUs),
	}
	w.perByte = max(1, ticks(1/orDefault(f.Hosts.Port, math.Inf(1))))
	if d := int(w.nodeCarrier.MaxDatagramData); d > 0 {
		w.packet = min(w.packet, d)
	}
	if err := c.division().Check(); err != nil {
		return nil, err
	}
	rule, err := w.newPattern()
	if err != nil {
		return nil, err
	}
	for i := range c.RUs {
		w.partBytes = append(w.partBytes, w.partSize(rule, i))
	}
	w.fitRun()
	if t := f.network; t != nil && len(t.Nodes) < w.hostCount() {
		return nil, &tooFewNodesError{File: f.Hosts.Topology, Have: len(t.Nodes), Needs: w.hostCount()}
	}
	shared := w.newProcessor()
	for range w.hostCount() {
		w.processors = append(w.processors, shared)
		if !f.Hosts.Shared {
			shared = w.newProcessor()
		}
	}
	w.World, err = builder.New(w.s, w.config(), w)
	return w, err
}

func (w *world) newProcessor() *processor {
	return &processor{
		s:          w.s,
		slowdown:   1 + w.costs.OtherLoad,
		coreFreeAt: make([]sim.Time, w.f.Hosts.Cores),
	}
}

// newPattern makes the sizes of fragments.
func (w *world) newPattern() (*pattern.Pattern, error) {
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
	for k := range d.SourceCount(ru) {
		const sample = 500
		for ev := range uint64(sample) {
			size += float64(rule.Size(uint16(d.FirstSource(ru)+k), ev)) / sample * float64(w.c.Packing)
		}
		size += float64(event.MFPHeaderSize(w.c.Packing))
	}
	return int(size)
}

// fitRun says how long a run is, how finely data moves, and how many slots memory has room for.
func (w *world) fitRun() {
	c := &w.c
	eventBytes := 0
	for _, part := range w.partBytes {
		eventBytes += part
	}
	w.slots = c.Slots
	if m := w.f.Hosts.Memory; m != nil {
		w.slots = max(1, min(w.slots, int(m.Value/float64(max(1, eventBytes))*float64(w.hostCount())/float64(c.BUs))))
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
	w.warmUpMEPs, w.countedMEPs = max(1, min(rounds/2, w.slots))*c.BUs, rounds*c.BUs
	if c.SuspendFor > 0 {
		w.warmUpMEPs, w.countedMEPs = 0, 0
	}
}

func (w *world) hostCount() int {
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
		Discipline:    d,
		Barrier:       c.barrier(),
		Seats:         readoutunit.SeatsInOrder(c.RUs, c.BUs),
		Slots:         w.slots,
		LookAhead:     min(c.LookAhead, w.slots),
		Packing:       c.Packing,
		PullWindow:    c.PullWindow,
		Hosts:         w.hostCount(),
		Topology:      w.f.network,
		SegmentBytes:  w.segment,
		WireBytes:     w.wire,
		MessageDelay:  w.hop + ticks(w.costs.MessageDelay),
		AckDelay:      w.hop + ticks(w.costs.MessageDelay),
		WarmUpCycles:  w.warmUpMEPs,
		CountedCycles: w.countedMEPs,
		Port: component.PortConfig{
			PerByte:    sim.Time(math.Round(float64(w.perByte) * (1 + w.costs.IdleShare))),
			Latency:    w.hop,
			CutThrough: true,
		},
	}
	for i := range c.RUs {
		cfg.RUs = append(cfg.RUs, i%w.hostCount())
	}
	for j := range c.BUs {
		cfg.BUs = append(cfg.BUs, w.rank(j)%w.hostCount())
	}
	queueBytes := max(int64(orDefault(w.f.Hosts.Queue, 1e6)), int64(2*w.wire(w.segment)))
	if w.f.Hosts.Lossless {
		cfg.Port.BufferBytes = queueBytes
	} else {
		cfg.InFlightLimit = queueBytes
	}
	return cfg
}

// packets is how many of a size so many bytes take.
func packets(data, size int) float64 { return float64(max(1, (data+size-1)/size)) }

// wire is how many bytes so many take with their headers.
func (w *world) wire(data int) int32 {
	return int32(float64(data) + packets(data, w.packet)*wireOverhead)
}

// play runs it until it has counted enough.
func (w *world) play(ctx context.Context) error {
	w.s.ScheduleAt(0, (*readDue)(w), 0, 0)
	limits := sim.Limits{}
	if w.c.SuspendFor > 0 {
		limits.Until = sim.FromDuration(w.c.Duration)
		w.scheduleSuspensions()
	}
	end, err := w.Play(ctx, limits)
	if err == nil && end == sim.Idle {
		err = fmt.Errorf("nothing goes on at %v, though %d MEPs are not counted yet", w.s.Now(), w.countedMEPs)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// endlessMEPs is more MEPs than a run builds.
const endlessMEPs = 1 << 32

type readDue world

// Handle: readout units have read MEPs, all that there are, or as they come.
func (e *readDue) Handle(_, _ int64) {
	w := (*world)(e)
	if w.mepsRead++; w.c.Rate == 0 {
		w.mepsRead = endlessMEPs
	} else {
		w.s.ScheduleAfter(ticks(float64(w.c.Packing)/w.c.Rate), e, 0, 0)
	}
	w.ReportRead(w.mepsRead)
}

// PartSize is a readout unit's part of a MEP.
func (w *world) PartSize(ru int, mep uint64) int {
	c := &w.c
	if n := uint64(c.LargeEvery); n > 0 && ru == c.LargeRU && mep%n == n-1 {
		return w.partBytes[ru] * c.LargeFactor
	}
	return w.partBytes[ru]
}

// PrepareDoneAt makes a write.
func (w *world) PrepareDoneAt(ru int) sim.Time {
	return w.processors[ru%w.hostCount()].scheduleWork(w.costs.Part + w.nodeCarrier.Part)
}

// moveCost is what moving bytes takes of a core at one end: within a node they are copied, within a host they go by the
// carrier alone, and between hosts through a card as well.
func (w *world) moveCost(ru, bu, bytes int) float64 {
	node, size := w.rank(bu), w.packet
	data, each := w.nodeCarrier.Byte, w.nodeCarrier.Packet
	switch {
	case ru == node:
		data, each = w.costs.carrier(local).Byte, 0
	case ru%w.hostCount() != node%w.hostCount():
		data, each = data+w.costs.Byte, each+w.costs.Packet
	case w.nodeCarrier.MaxDatagramData > 0:
		size = int(w.nodeCarrier.MaxDatagramData)
	}
	return packets(bytes, size)*each + float64(bytes)*data
}

// SendDoneAt makes the packets of a segment.
func (w *world) SendDoneAt(ru, bu, bytes int) sim.Time {
	return w.processors[ru%w.hostCount()].scheduleWork(w.moveCost(ru, bu, bytes))
}

// ReceiveDoneAt places them; the last acknowledges the part.
func (w *world) ReceiveDoneAt(ru, bu, bytes int, last bool) sim.Time {
	cost := w.moveCost(ru, bu, bytes)
	if last {
		cost += w.costs.Part + w.nodeCarrier.Part
	}
	return w.processors[w.rank(bu)%w.hostCount()].scheduleWork(cost)
}

// MessageDoneAt takes the processor at each end. Who leaves a barrier waits for it, too.
func (w *world) MessageDoneAt(host int, of builder.MessageKind) sim.Time {
	if of == builder.LeaveBarrier {
		return w.processors[host].scheduleWork(0)
	}
	return w.processors[host].scheduleWork(w.costs.Message)
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
func (w *world) Built(bu int, f core.Feedback) {
	if w.s.Now() < w.suspendedUntil[bu] {
		w.keptFeedback[bu] = append(w.keptFeedback[bu], f)
		return
	}
	w.SendFeedback(bu, f)
}

// totalBusyTime is what all processors have worked.
func (w *world) totalBusyTime() (all sim.Time) {
	for i, p := range w.processors {
		if i == 0 || !w.f.Hosts.Shared {
			all += p.busy
		}
	}
	return all
}

// scheduleSuspensions stops a builder unit at a time, as the product's builderunit.Suspension does: a suspension lasts
// until a whole number of the time between them has passed.
func (w *world) scheduleSuspensions() {
	every, lasts := sim.FromDuration(w.c.SuspendEvery), sim.FromDuration(w.c.SuspendFor)
	for n := range int(w.c.Duration/w.c.SuspendEvery) + 1 {
		bu := int64(n % w.c.BUs)
		end := sim.Time(n+1) * every
		w.s.ScheduleAt(end-lasts, (*suspensionBegan)(w), bu, int64(end))
		w.s.ScheduleAt(end, (*suspensionEnded)(w), bu, 0)
	}
}

type suspensionBegan world

// Handle: the builder unit is suspended.
func (e *suspensionBegan) Handle(bu, until int64) { e.suspendedUntil[bu] = sim.Time(until) }

type suspensionEnded world

// Handle: the builder unit takes what it has kept.
func (e *suspensionEnded) Handle(bu, _ int64) {
	kept := e.keptFeedback[bu]
	e.keptFeedback[bu] = nil
	for _, f := range kept {
		e.SendFeedback(int(bu), f)
	}
}

// withoutBarrier says whether the phases end without a barrier.
func (c *Setup) withoutBarrier() bool { return c.barrier() == barrier.None }
