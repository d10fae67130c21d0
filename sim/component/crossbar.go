package component

import (
	"fmt"

	"ringlet/sim"
)

// CrossbarConfig describes a crossbar with buffered cross-points. It is symmetric: port i has a link in and one out.
type CrossbarConfig struct {
	Ports           int
	CrossPointBytes int32    // capacity of a cross-point
	PerByte         sim.Time // picoseconds a byte of a link
	StartBytes      int32    // bytes of start-of-packet on the link, before each packet
	SwitchGap       sim.Time // lost by an output between packets of different inputs
	Latency         sim.Time // from a packet's first byte in to its first byte out, if the output is free
	BytesPerCredit  int32    // bytes that one credit returns
	CreditSize      int32    // bytes of a credit on the link; credits go before packets
	CreditDelay     sim.Time // from a credit's end on the link until the sender may use it
}

// Crossbar is a switch with a buffer at each crossing of an input and an output. Each output serves its cross-points in
// turn. The sender at an input knows by credits how much space each of its cross-points has, so none overflows. Credits
// return on the output link of the same port, one at a time, for the outputs in turn.
type Crossbar struct {
	s          *sim.Sim
	cfg        CrossbarConfig
	inputs     []*inputPort
	links      []*Bus        // the output links
	lastServed []*crossPoint // by output
}

// inputPort is the sender at a port: a FIFO of packets, and its credits for each output.
type inputPort struct {
	x                *Crossbar
	index            int
	queue            *Queue[*Packet]
	sending          bool
	creditBytes      []int32 // by output: free bytes of the cross-point, as far as the sender knows
	crossPoints      []*crossPoint
	owedBytes        []int32 // by output: bytes that have left the cross-point and are not yet credited
	nextCreditOutput int     // of the credit scheduler
	creditsInFlight  *Queue[int]
	creditWait       sim.Time // time with a packet, but without credit for it
	since            sim.Time
}

// crossPoint is a cross-point: the client of an output link.
type crossPoint struct {
	input        *inputPort
	output       int
	queue        *Queue[*Packet]
	readyPackets int // packets whose first byte may leave
	heldBytes    sim.Level
}

// NewCrossbar makes an empty crossbar. A packet's Dst is its output, its Src the input.
func NewCrossbar(s *sim.Sim, cfg CrossbarConfig) *Crossbar {
	x := &Crossbar{s: s, cfg: cfg, lastServed: make([]*crossPoint, cfg.Ports)}
	for range cfg.Ports {
		x.links = append(x.links, NewBus(s, 0))
	}
	for at := range cfg.Ports {
		in := &inputPort{
			x:               x,
			index:           at,
			queue:           NewQueue[*Packet](s, 0),
			creditBytes:     make([]int32, cfg.Ports),
			owedBytes:       make([]int32, cfg.Ports),
			creditsInFlight: NewQueue[int](s, 0),
		}
		x.links[at].attachPriority((*creditScheduler)(in))
		for out, link := range x.links {
			p := &crossPoint{input: in, output: out, queue: NewQueue[*Packet](s, 0)}
			in.creditBytes[out] = cfg.CrossPointBytes
			in.crossPoints = append(in.crossPoints, p)
			link.Attach(p)
		}
		x.inputs = append(x.inputs, in)
	}
	if s.InstrumentsEnabled() {
		x.instrument()
	}
	return x
}

// crossbarSampleInterval is the initial interval between two points of a curve.
const crossbarSampleInterval = sim.Microsecond

// instrument watches the waiting packets, and draws the transfers on the output links.
func (x *Crossbar) instrument() {
	x.s.Watch("packets in cross-points", crossbarSampleInterval, func() (sum int64) {
		for _, in := range x.inputs {
			for _, p := range in.crossPoints {
				sum += int64(p.queue.Len())
			}
		}
		return sum
	})
	x.s.Watch("packets at senders", crossbarSampleInterval, func() (sum int64) {
		for _, in := range x.inputs {
			sum += int64(in.queue.Len())
		}
		return sum
	})
	for out, link := range x.links {
		link.TraceTransfers(fmt.Sprintf("output %d", out), func(c Client) string {
			if p, ok := c.(*crossPoint); ok {
				return fmt.Sprintf("packet of input %d", p.input.index)
			}
			return "credit"
		})
	}
}

// Receive queues a packet at the sender of port p.Src. It leaves by output p.Dst to p.Receiver.
func (x *Crossbar) Receive(p *Packet) {
	in := x.inputs[p.Src]
	in.queue.Put(p)
	in.kick()
}

// PeakBytes is the most bytes that a cross-point has held.
func (x *Crossbar) PeakBytes(in, out int) int64 {
	return x.inputs[in].crossPoints[out].heldBytes.Peak()
}

// CreditWait is how long the sender of a port had a packet, but no credit for it.
func (x *Crossbar) CreditWait(in int) sim.Time { return x.inputs[in].creditWait }

// kick sends the first packet if there is credit for it.
func (in *inputPort) kick() {
	if in.sending || in.queue.Len() == 0 {
		return
	}
	now := in.x.s.Now()
	p := in.queue.First()
	if in.creditBytes[p.Dst] < p.Size {
		if in.since == 0 {
			in.since = max(now, 1)
		}
		return
	}
	if in.since > 0 {
		in.creditWait, in.since = in.creditWait+now-in.since, 0
	}
	in.queue.Get()
	in.creditBytes[p.Dst] -= p.Size
	in.sending = true
	point := in.crossPoints[p.Dst]
	point.heldBytes.Add(now, int64(p.Size))
	point.queue.Put(p)
	in.x.s.ScheduleAfter(in.x.cfg.Latency, (*crossPointReady)(point), 0, 0)
	in.x.s.ScheduleAfter(sim.Time(in.x.cfg.StartBytes+p.Size)*in.x.cfg.PerByte, (*inputFree)(in), 0, 0)
}

type inputFree inputPort

func (e *inputFree) Handle(int64, int64) {
	e.sending = false
	(*inputPort)(e).kick()
}

// crossPointReady is the event that a packet's first byte may leave, while its last bytes still arrive.
type crossPointReady crossPoint

func (e *crossPointReady) Handle(int64, int64) {
	e.readyPackets++
	e.input.x.links[e.output].Kick()
}

// Offer returns how long the cross-point's first packet would hold the link of the output, and whether it may leave.
func (p *crossPoint) Offer() (sim.Time, bool) {
	if p.readyPackets == 0 {
		return 0, false
	}
	c := &p.input.x.cfg
	hold := sim.Time(c.StartBytes+p.queue.First().Size) * c.PerByte
	if last := p.input.x.lastServed[p.output]; last != nil && last != p {
		hold += c.SwitchGap
	}
	return hold, true
}

// Begin records the cross-point served; the packet leaves the buffer at its end.
func (p *crossPoint) Begin() { p.input.x.lastServed[p.output] = p }

// End hands the packet over, and owes its sender the credit.
func (p *crossPoint) End() {
	packet := p.queue.Get()
	p.readyPackets--
	p.heldBytes.Add(p.input.x.s.Now(), -int64(packet.Size))
	p.input.owedBytes[p.output] += packet.Size
	p.input.x.links[p.input.index].Kick()
	packet.Receiver.Receive(packet)
}

// creditScheduler is the credit scheduler of an input: a client of the output link of the same port.
type creditScheduler inputPort

// Offer returns how long one credit would hold the link, and whether the input owes its sender a credit for an output.
// It picks that output, and the outputs take turns; Begin pays the credit.
func (c *creditScheduler) Offer() (sim.Time, bool) {
	for i := range c.owedBytes {
		if out := (c.nextCreditOutput + i) % len(c.owedBytes); c.owedBytes[out] >= c.x.cfg.BytesPerCredit {
			c.nextCreditOutput = out
			return sim.Time(c.x.cfg.CreditSize) * c.x.cfg.PerByte, true
		}
	}
	return 0, false
}

// Begin takes the bytes of the credit from the debt.
func (c *creditScheduler) Begin() {
	c.owedBytes[c.nextCreditOutput] -= c.x.cfg.BytesPerCredit
	c.creditsInFlight.Put(c.nextCreditOutput)
	c.nextCreditOutput++
}

// End sends the credit on its way to the sender.
func (c *creditScheduler) End() { c.x.s.ScheduleAfter(c.x.cfg.CreditDelay, (*creditArrived)(c), 0, 0) }

type creditArrived inputPort

func (e *creditArrived) Handle(int64, int64) {
	e.creditBytes[e.creditsInFlight.Get()] += e.x.cfg.BytesPerCredit
	(*inputPort)(e).kick()
}
