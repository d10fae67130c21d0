package sci

import (
	"ringlet/sim"
	"ringlet/sim/component"
)

// Packet is a write of at most MaxData bytes from a node to another one.
type Packet struct {
	Src, Dst   int      // nodes
	Size       int      // bytes of data
	ID, Piece  int64    // of the model
	AcceptedAt sim.Time // when Send took it: its first data word on the sender's bus
	isResponse bool
}

// kind of the packet.
func (p *Packet) kind() kind {
	if p.isResponse {
		return response
	}
	return request
}

// wireBytes is the data in the packet on the ring: a response to a write carries none.
func (p *Packet) wireBytes() int {
	if p.isResponse {
		return 0
	}
	return p.Size
}

// A Receiver receives packets. When Receive returns, the network reuses the packet.
type Receiver interface{ Receive(p *Packet) }

// Node is a host with its card and a link chip for each dimension.
type Node struct {
	net      *Net
	coords   []int
	links    []*link // by dimension; nil if the torus has one node in it
	PCI      *component.Bus
	BLink    *component.Bus
	Receiver Receiver    // receives packets; may be nil
	OnFreed  sim.Handler // called when a stream is free again; may be nil

	track            sim.Track
	lastReadLink     *link // whose request the B-Link has read last
	usedStreams      int
	filling          *component.Queue[*Packet]
	outgoing         [numKinds]*component.Queue[*Packet] // ready for the B-Link
	crossingCard     *component.Queue[*Packet]           // crossing the card
	incoming         *component.Queue[*Packet]           // ready for the PCI bus
	incomingReserved int                                 // places of the incoming card in use
	Refused          uint64                              // calls of Send without a free stream
}

// Send sends a packet of size bytes to dst; its first data word is on the bus now. It returns false if all streams are
// in use: the bus has to try again.
func (n *Node) Send(dst, size int, id, piece int64) bool {
	if n.usedStreams >= n.net.cfg.MaxStreams {
		n.Refused++
		return false
	}
	n.usedStreams++
	p := n.net.packet()
	p.Src, p.Dst, p.Size, p.ID, p.Piece, p.AcceptedAt = n.net.nodeIndex(n.coords), dst, size, id, piece, n.net.s.Now()
	n.filling.Put(p)
	n.net.trace.Instant(n.track, "sent", n.net.s.Now(), id)
	n.net.s.ScheduleAfter(n.net.cfg.clocks((size+7)/8)+n.net.cfg.cardTime(), (*streamFull)(n), 0, 0)
	return true
}

type streamFull Node

func (e *streamFull) Handle(int64, int64) {
	e.outgoing[request].Put(e.filling.Get())
	e.BLink.Kick()
}

// exitLink is the link where a packet leaves the ring of a dimension: the node there has the destination's coordinate.
func (n *Node) exitLink(p *Packet, dim int) *link {
	l := n.links[dim]
	for want := n.net.nodes[p.Dst].coords[dim]; l.node.coords[dim] != want; {
		l = l.next
	}
	return l
}

// outputLink is the link by which a packet leaves the node; nil if it has arrived.
func (n *Node) outputLink(p *Packet) *link {
	for dim, c := range n.net.nodes[p.Dst].coords {
		if n.coords[dim] != c {
			return n.links[dim]
		}
	}
	return nil
}

// blinkClient is a client of the B-Link: a queue of packets to a link, or to the card.
type blinkClient struct {
	n     *Node
	queue *component.Queue[*Packet]
	l     *link // link of the receive queue; nil for the card's own packets
	k     kind
	slot  *slot // reserved by Begin; nil: to the card
}

// Offer is the time of the first packet, if there is space for it at its destination.
func (c *blinkClient) Offer() (sim.Time, bool) {
	if c.queue.Len() == 0 {
		return 0, false
	}
	p := c.queue.First()
	if out := c.n.outputLink(p); out != nil && !out.hasSpace(c.k) ||
		out == nil && c.k == request && c.n.incomingReserved >= c.n.net.cfg.MaxIncoming {
		return 0, false
	}
	return c.n.net.cfg.blinkTime(p.wireBytes()) + c.turnTime(), true
}

// turnTime is the extra time to read a request of another ring than the last one.
func (c *blinkClient) turnTime() sim.Time {
	if c.l == nil || c.k != request || c.n.lastReadLink == nil || c.n.lastReadLink == c.l {
		return 0
	}
	return sim.Time(c.n.net.cfg.QueueTurnClocks) * c.n.net.cfg.BLinkClock
}

// Begin reserves the space.
func (c *blinkClient) Begin() {
	p := c.queue.First()
	if out := c.n.outputLink(p); out != nil {
		c.slot = out.reserve(p)
	} else if c.slot = nil; c.k == request {
		c.n.incomingReserved++
	}
}

// End takes the packet out of its queue, and sends it on.
func (c *blinkClient) End() {
	p := c.queue.Get()
	if c.l != nil {
		c.l.receiveTaken[c.k]--
		if c.k == request {
			c.n.lastReadLink = c.l
		}
	}
	switch {
	case c.slot != nil && c.l != nil: // from ring to ring
		c.slot.l.node.cross(c.slot)
	case c.slot != nil:
		c.slot.l.send(c.slot)
		if c.k == request && !c.n.net.cfg.WithResponses {
			c.n.release()
		}
	case c.k == response:
		c.n.net.free = append(c.n.net.free, p)
		c.n.release()
	default:
		c.n.crossingCard.Put(p)
		c.n.net.s.ScheduleAfter(c.n.net.cfg.cardTime(), (*cardCrossed)(c.n), 0, 0)
	}
}

// cross takes a packet from one ring's link chip to another's.
func (n *Node) cross(o *slot) {
	n.net.ringCrossings.Put(o)
	n.net.s.ScheduleAfter(n.net.cfg.routeTime(), (*ringCrossed)(n.net), 0, 0)
}

type ringCrossed Net

func (e *ringCrossed) Handle(int64, int64) {
	o := e.ringCrossings.Get() // all take the same time, so they arrive in order
	o.l.send(o)
}

// release frees a stream.
func (n *Node) release() {
	n.usedStreams--
	if n.OnFreed != nil {
		n.OnFreed.Handle(0, 0)
	}
}

type cardCrossed Node

func (e *cardCrossed) Handle(int64, int64) {
	e.incoming.Put(e.crossingCard.Get())
	e.PCI.Kick()
}

// cardWriter is the card as a client of its PCI bus.
type cardWriter Node

// Offer is the time of a burst with the idle clocks behind it.
func (w *cardWriter) Offer() (sim.Time, bool) {
	if w.incoming.Len() == 0 {
		return 0, false
	}
	c := &w.net.cfg
	return c.clocks(c.PCIHeadClocks + (w.incoming.First().Size+7)/8 + c.PCIGapClocks), true
}

// Begin schedules the first data word, which follows the address.
func (w *cardWriter) Begin() {
	w.net.s.ScheduleAfter(w.net.cfg.clocks(w.net.cfg.PCIHeadClocks), (*firstWord)(w), 0, 0)
}

// End frees the card's place, and sends the response.
func (w *cardWriter) End() {
	p := w.incoming.Get()
	w.incomingReserved--
	if w.net.cfg.WithResponses {
		p.Src, p.Dst, p.isResponse = p.Dst, p.Src, true
		w.outgoing[response].Put(p)
	} else {
		w.net.free = append(w.net.free, p)
	}
	w.BLink.Kick()
}

type firstWord Node

func (e *firstWord) Handle(int64, int64) {
	e.net.trace.Instant(e.track, "first word", e.net.s.Now(), e.incoming.First().ID)
	if e.Receiver != nil {
		e.Receiver.Receive(e.incoming.First())
	}
}
