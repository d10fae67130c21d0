package component

import (
	"fmt"

	"ringlet/sim"
)

// CrossbarConfig says what a crossbar with buffered cross-points is. It is symmetric: port i has a link in and one out.
type CrossbarConfig struct {
	Ports           int
	CrossPointBytes int32    // bytes of a cross-point
	PerByte         sim.Time // picoseconds a byte of a link
	StartBytes      int32    // bytes of start-of-packet on the link, before each packet
	SwitchGap       sim.Time // that an output loses between packets of different inputs
	Latency         sim.Time // from a packet's first byte in to its first byte out, if the output is free
	BytesPerCredit  int32    // bytes of room that one credit gives back
	CreditSize      int32    // bytes of a credit on the link; it goes before packets
	CreditDelay     sim.Time // from a credit's end on the link to the sender that may use it
}

// Crossbar is a switch with a buffer at each crossing of an input and an output. Each output takes its cross-points in
// turn. The sender of an input knows by credits what room each of its cross-points has, so none overflows; credits go
// back on the output link of the same port, one at a time, the outputs in turn.
type Crossbar struct {
	s          *sim.Sim
	cfg        CrossbarConfig
	inputs     []*inputPort
	links      []*Bus        // the output links
	lastServed []*crossPoint // that each output served
}

// inputPort is the sender at a port: a FIFO of packets, and the credits it has for each output.
type inputPort struct {
	x                *Crossbar
	index            int
	queue            *Queue[*Packet]
	sending          bool
	creditBytes      []int32 // bytes that each of its cross-points has, as far as the sender knows
	crossPoints      []*crossPoint
	owedBytes        []int32 // bytes that have left each cross-point, for which no credit has begun its way
	nextCreditOutput int     // of the credit scheduler
	creditsInFlight  *Queue[int]
	creditWait       sim.Time // with a packet, but without the credit for it
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

// NewCrossbar makes an empty one. The destination of a packet is the output, its Src the input.
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

// crossbarSampleInterval is at first between two points of a curve.
const crossbarSampleInterval = sim.Microsecond

// instrument counts what waits, and draws what the output links carry.
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

// Receive queues a packet at the sender of port p.Src. It goes to p.To by output p.Dst.
func (x *Crossbar) Receive(p *Packet) {
	in := x.inputs[p.Src]
	in.queue.Put(p)
	in.kick()
}

// PeakBytes is the most bytes that the cross-point of an input and an output held.
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

// crossPointReady: the first byte of a packet may leave, while its last ones still come.
type crossPointReady crossPoint

func (e *crossPointReady) Handle(int64, int64) {
	e.readyPackets++
	e.input.x.links[e.output].Kick()
}

// Offer is the output's time for the first packet of the cross-point.
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

// Begin notes whose turn it was: the packet leaves the buffer at its end.
func (p *crossPoint) Begin() { p.input.x.lastServed[p.output] = p }

// End hands the packet over, and owes its sender the room.
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

// Offer is the time of one credit, if one is owed. The outputs take turns.
func (c *creditScheduler) Offer() (sim.Time, bool) {
	for i := range c.owedBytes {
		if out := (c.nextCreditOutput + i) % len(c.owedBytes); c.owedBytes[out] >= c.x.cfg.BytesPerCredit {
			c.nextCreditOutput = out
			return sim.Time(c.x.cfg.CreditSize) * c.x.cfg.PerByte, true
		}
	}
	return 0, false
}

// Begin takes the room that the credit gives.
func (c *creditScheduler) Begin() {
	c.owedBytes[c.nextCreditOutput] -= c.x.cfg.BytesPerCredit
	c.creditsInFlight.Put(c.nextCreditOutput)
	c.nextCreditOutput++
}

// End: the credit is on its way to the sender.
func (c *creditScheduler) End() { c.x.s.ScheduleAfter(c.x.cfg.CreditDelay, (*creditArrived)(c), 0, 0) }

type creditArrived inputPort

func (e *creditArrived) Handle(int64, int64) {
	e.creditBytes[e.creditsInFlight.Get()] += e.x.cfg.BytesPerCredit
	(*inputPort)(e).kick()
}
