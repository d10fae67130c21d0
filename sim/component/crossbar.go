package component

import (
	"fmt"

	"ringlet/sim"
)

// CrossbarConfig says what a crossbar with buffered cross-points is. It is symmetric: port i has a link in and one out.
type CrossbarConfig struct {
	Ports      int
	Buffer     int32    // bytes of a cross-point
	PerByte    sim.Time // picoseconds a byte of a link
	Start      int32    // bytes of start-of-packet on the link, before each packet
	Gap        sim.Time // that an output loses between packets of different inputs
	Latency    sim.Time // from a packet's first byte in to its first byte out, if the output is free
	CreditUnit int32    // bytes of room that one credit gives back
	CreditSize int32    // bytes of a credit on the link; it goes before packets
	CreditLate sim.Time // from a credit's end on the link to the sender that may use it
}

// Crossbar is a switch with a buffer at each crossing of an input and an output. Each output takes its cross-points in
// turn. The sender of an input knows by credits what room each of its cross-points has, so none overflows; credits go
// back on the output link of the same port, one at a time, the outputs in turn.
type Crossbar struct {
	s      *sim.Sim
	cfg    CrossbarConfig
	inputs []*input
	links  []*Bus   // the output links
	last   []*point // that each output served
}

// input is the sender at a port: a FIFO of packets, and the credits it has for each output.
type input struct {
	x       *Crossbar
	index   int
	queue   *Queue[*Packet]
	sending bool
	credit  []int32 // bytes that each of its cross-points has, as far as the sender knows
	points  []*point
	owed    []int32 // bytes that have left each cross-point, for which no credit has begun its way
	turn    int     // of the credit scheduler
	returns *Queue[int]
	waited  sim.Time // with a packet, but without the credit for it
	since   sim.Time
}

// point is a cross-point: the client of an output link.
type point struct {
	from  *input
	out   int
	queue *Queue[*Packet]
	ready int // packets whose first byte may leave
	held  sim.Level
}

// NewCrossbar makes an empty one. The destination of a packet is the output, its Src the input.
func NewCrossbar(s *sim.Sim, cfg CrossbarConfig) *Crossbar {
	x := &Crossbar{s: s, cfg: cfg, last: make([]*point, cfg.Ports)}
	for range cfg.Ports {
		x.links = append(x.links, NewBus(s, 0))
	}
	for at := range cfg.Ports {
		in := &input{
			x:       x,
			index:   at,
			queue:   NewQueue[*Packet](s, 0),
			credit:  make([]int32, cfg.Ports),
			owed:    make([]int32, cfg.Ports),
			returns: NewQueue[int](s, 0),
		}
		x.links[at].attachFirst((*credits)(in))
		for out, link := range x.links {
			p := &point{from: in, out: out, queue: NewQueue[*Packet](s, 0)}
			in.credit[out] = cfg.Buffer
			in.points = append(in.points, p)
			link.Attach(p)
		}
		x.inputs = append(x.inputs, in)
	}
	if s.Observed() {
		x.instrument()
	}
	return x
}

// crossbarWatch is at first between two points of a curve.
const crossbarWatch = sim.Microsecond

// instrument counts what waits, and draws what the output links carry.
func (x *Crossbar) instrument() {
	x.s.Watch("packets in cross-points", crossbarWatch, func() (sum int64) {
		for _, in := range x.inputs {
			for _, p := range in.points {
				sum += int64(p.queue.Len())
			}
		}
		return sum
	})
	x.s.Watch("packets at senders", crossbarWatch, func() (sum int64) {
		for _, in := range x.inputs {
			sum += int64(in.queue.Len())
		}
		return sum
	})
	for out, link := range x.links {
		link.Trace(fmt.Sprintf("output %d", out), func(c Client) string {
			if p, ok := c.(*point); ok {
				return fmt.Sprintf("packet of input %d", p.from.index)
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

// link is the output link of a port: its use, and how many packets and credits it served.
func (x *Crossbar) link(out int) *Bus { return x.links[out] }

// Peak is the most bytes that the cross-point of an input and an output held.
func (x *Crossbar) Peak(in, out int) int64 { return x.inputs[in].points[out].held.Peak() }

// Waited is how long the sender of a port had a packet, but no credit for it.
func (x *Crossbar) Waited(in int) sim.Time { return x.inputs[in].waited }

// kick sends the first packet if there is credit for it.
func (in *input) kick() {
	if in.sending || in.queue.Len() == 0 {
		return
	}
	now := in.x.s.Now()
	p := in.queue.First()
	if in.credit[p.Dst] < p.Size {
		if in.since == 0 {
			in.since = max(now, 1)
		}
		return
	}
	if in.since > 0 {
		in.waited, in.since = in.waited+now-in.since, 0
	}
	in.queue.Get()
	in.credit[p.Dst] -= p.Size
	in.sending = true
	point := in.points[p.Dst]
	point.held.Add(now, int64(p.Size))
	point.queue.Put(p)
	in.x.s.ScheduleAfter(in.x.cfg.Latency, (*pointReady)(point), 0, 0)
	in.x.s.ScheduleAfter(sim.Time(in.x.cfg.Start+p.Size)*in.x.cfg.PerByte, (*inputFree)(in), 0, 0)
}

type inputFree input

func (e *inputFree) Handle(int64, int64) {
	e.sending = false
	(*input)(e).kick()
}

// pointReady: the first byte of a packet may leave, while its last ones still come.
type pointReady point

func (e *pointReady) Handle(int64, int64) {
	e.ready++
	e.from.x.links[e.out].Kick()
}

// Offer is the output's time for the first packet of the cross-point.
func (p *point) Offer() (sim.Time, bool) {
	if p.ready == 0 {
		return 0, false
	}
	c := &p.from.x.cfg
	hold := sim.Time(c.Start+p.queue.First().Size) * c.PerByte
	if last := p.from.x.last[p.out]; last != nil && last != p {
		hold += c.Gap
	}
	return hold, true
}

// Begin notes whose turn it was: the packet leaves the buffer at its end.
func (p *point) Begin() { p.from.x.last[p.out] = p }

// End hands the packet over, and owes its sender the room.
func (p *point) End() {
	packet := p.queue.Get()
	p.ready--
	p.held.Add(p.from.x.s.Now(), -int64(packet.Size))
	p.from.owed[p.out] += packet.Size
	p.from.x.links[p.from.index].Kick()
	packet.To.Receive(packet)
}

// credits is the credit scheduler of an input: a client of the output link of the same port.
type credits input

// Offer is the time of one credit, if one is owed. The outputs take turns.
func (c *credits) Offer() (sim.Time, bool) {
	for i := range c.owed {
		if out := (c.turn + i) % len(c.owed); c.owed[out] >= c.x.cfg.CreditUnit {
			c.turn = out
			return sim.Time(c.x.cfg.CreditSize) * c.x.cfg.PerByte, true
		}
	}
	return 0, false
}

// Begin takes the room that the credit gives.
func (c *credits) Begin() {
	c.owed[c.turn] -= c.x.cfg.CreditUnit
	c.returns.Put(c.turn)
	c.turn++
}

// End: the credit is on its way to the sender.
func (c *credits) End() { c.x.s.ScheduleAfter(c.x.cfg.CreditLate, (*creditBack)(c), 0, 0) }

type creditBack input

func (e *creditBack) Handle(int64, int64) {
	e.credit[e.returns.Get()] += e.x.cfg.CreditUnit
	(*input)(e).kick()
}
