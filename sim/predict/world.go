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
	nodeCarrier Carrier // the carrier between nodes
	s           *sim.Sim

	perByte, hop            sim.Time
	packet                  int // bytes of data in a packet between hosts
	segment                 int // bytes of data that the model moves at a time
	slots                   int // as many as memory allows
	partBytes               []int
	warmUpMEPs, countedMEPs int // MEPs left out, and counted

	processors     []*processor // by host
	mepsRead       uint64       // MEPs read so far; only if a rate is offered
	suspendedUntil []sim.Time   // by builder unit
	keptFeedback   [][]core.Feedback
}

// processor is the cores of a host, or of the machine that all hosts share: work is done in the order of arrival, each
// by the core that is free first.
type processor struct {
	s          *sim.Sim
	slowdown   float64 // factor, compared with cores that no other program uses
	coreFreeAt []sim.Time
	busy       sim.Time
}

// scheduleWork returns when work that arrives now is done; its time is in seconds of a core that no other program uses.
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

// Bytes of a packet besides data. A packet of 8,972 bytes of UDP carries 8,885 bytes of data (ringlet bench carriers,
// 2026-11-24); the rest is QUIC's header and tag, the frame's and the chunk's header.
const (
	packetOverhead = 20 + 8 + 8972 - 8885 // of the MTU: IP, UDP and Ringlet's
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

// partSize is the size of a readout unit's part of a MEP: the mean of the fragments, with the packets' headers.
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

// fitRun sets the length of a run, the size of segments, and the slots that fit into memory.
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

// rank is the node of a builder unit: readout units are on the first nodes, builder units on the last.
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

// packets returns how many packets with size bytes of data each carry data bytes: at least one.
func packets(data, size int) float64 { return float64(max(1, (data+size-1)/size)) }

// wire returns how many bytes data takes on the wire, with the headers of its packets.
func (w *world) wire(data int) int32 {
	return int32(float64(data) + packets(data, w.packet)*wireOverhead)
}

// play runs the simulation until it has counted enough.
func (w *world) play(ctx context.Context) error {
	w.s.ScheduleAt(0, (*readDue)(w), 0, 0)
	limits := sim.Limits{}
	if w.c.SuspendFor > 0 {
		limits.Until = sim.FromDuration(w.c.Duration)
		w.scheduleSuspensions()
	}
	end, err := w.Play(ctx, limits)
	if err == nil && end == sim.Idle {
		err = fmt.Errorf("the simulation came to a stop at %v, before %d MEPs were counted", w.s.Now(), w.countedMEPs)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// endlessMEPs is more MEPs than a run builds.
const endlessMEPs = 1 << 32

type readDue world

// Handle: readout units have read the next MEP, or all MEPs if no rate is offered.
func (e *readDue) Handle(_, _ int64) {
	w := (*world)(e)
	if w.mepsRead++; w.c.Rate == 0 {
		w.mepsRead = endlessMEPs
	} else {
		w.s.ScheduleAfter(ticks(float64(w.c.Packing)/w.c.Rate), e, 0, 0)
	}
	w.ReportRead(w.mepsRead)
}

// PartSize is the size of a readout unit's part of a MEP.
func (w *world) PartSize(ru int, mep uint64) int {
	c := &w.c
	if n := uint64(c.LargeEvery); n > 0 && ru == c.LargeRU && mep%n == n-1 {
		return w.partBytes[ru] * c.LargeFactor
	}
	return w.partBytes[ru]
}

// PrepareDoneAt takes processor time for a write.
func (w *world) PrepareDoneAt(ru int) sim.Time {
	return w.processors[ru%w.hostCount()].scheduleWork(w.costs.Part + w.nodeCarrier.Part)
}

// moveCost is the processor time of moving bytes at one end: within a node they are copied, within a host only the
// carrier moves them, and between hosts a card as well.
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

// SendDoneAt takes processor time for the packets of a segment.
func (w *world) SendDoneAt(ru, bu, bytes int) sim.Time {
	return w.processors[ru%w.hostCount()].scheduleWork(w.moveCost(ru, bu, bytes))
}

// ReceiveDoneAt takes processor time for placing them, and with the last segment for the acknowledgement.
func (w *world) ReceiveDoneAt(ru, bu, bytes int, last bool) sim.Time {
	cost := w.moveCost(ru, bu, bytes)
	if last {
		cost += w.costs.Part + w.nodeCarrier.Part
	}
	return w.processors[w.rank(bu)%w.hostCount()].scheduleWork(cost)
}

// MessageDoneAt takes processor time at each end. A unit that leaves a barrier also waits for its processor.
func (w *world) MessageDoneAt(host int, of builder.MessageKind) sim.Time {
	if of == builder.LeaveBarrier {
		return w.processors[host].scheduleWork(0)
	}
	return w.processors[host].scheduleWork(w.costs.Message)
}

// ResentBytes is the number of bytes that are resent because packets of a segment have waited too long: once after a
// time, again after twice as long, and so on. Packets of several senders to a port take turns, so each packet of a
// segment waits for its share of the time. With lossless switches senders wait, and resend nothing.
func (w *world) ResentBytes(waited sim.Time, data int, size int32) int64 {
	each := waited.Seconds() / packets(data, w.packet)
	if w.f.Hosts.Lossless || each < w.costs.RetransmitTimeout {
		return 0
	}
	return int64(math.Log2(each/w.costs.RetransmitTimeout+1)) * int64(size)
}

// Built handles a complete MEP. A suspended builder unit keeps its feedback until it goes on.
func (w *world) Built(bu int, f core.Feedback) {
	if w.s.Now() < w.suspendedUntil[bu] {
		w.keptFeedback[bu] = append(w.keptFeedback[bu], f)
		return
	}
	w.SendFeedback(bu, f)
}

// totalBusyTime is the time that all processors have worked.
func (w *world) totalBusyTime() (all sim.Time) {
	for i, p := range w.processors {
		if i == 0 || !w.f.Hosts.Shared {
			all += p.busy
		}
	}
	return all
}

// scheduleSuspensions suspends one builder unit at a time, as the product's builderunit.Suspension does: a suspension
// ends at a multiple of the time between suspensions.
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

// Handle suspends the builder unit.
func (e *suspensionBegan) Handle(bu, until int64) { e.suspendedUntil[bu] = sim.Time(until) }

type suspensionEnded world

// Handle ends the suspension, and sends the kept feedback.
func (e *suspensionEnded) Handle(bu, _ int64) {
	kept := e.keptFeedback[bu]
	e.keptFeedback[bu] = nil
	for _, f := range kept {
		e.SendFeedback(int(bu), f)
	}
}

// withoutBarrier says whether the phases end without a barrier.
func (c *Setup) withoutBarrier() bool { return c.barrier() == barrier.None }
