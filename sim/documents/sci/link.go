package sci

import (
	"ringlet/sim"
	"ringlet/sim/component"
)

// kind of a packet. Each kind has space of its own in every queue, so responses get through when requests are stuck.
type kind int

const (
	request kind = iota
	response
	numKinds
)

// unit is a packet or an echo on a ring.
type unit struct {
	packet         *Packet // nil for an echo
	id             int64   // of the packet
	echo           bool
	accepted       bool // for an echo: the packet was accepted
	destination    *link
	senderSlot     *slot    // the packet's slot at the sender
	bypassExitTime sim.Time // when its first symbol may leave the by-pass FIFO
}

// name is the unit's name in a trace of a link's output.
func (u unit) name(l *link) string {
	switch {
	case u.echo:
		return "echo"
	case u.senderSlot.l != l:
		return "by-pass"
	case u.packet.isResponse:
		return "response"
	}
	return "request"
}

// slot is a place in a send queue.
type slot struct {
	l *link
	p *Packet
	k kind
}

// link is a node's link chip on one ring: arriving units by-pass or are taken off, and packets to be sent wait.
type link struct {
	s    *sim.Sim
	cfg  *Config
	node *Node
	next *link // down the ring
	dim  int

	sending      bool
	bypass       *component.Queue[unit]
	arriving     *component.Queue[unit]  // packets being taken off
	waiting      *component.Queue[*slot] // slots of the send queue whose packets wait to be sent, or sent again
	echoes       *component.Queue[unit]  // echoes being taken off
	free         []*slot
	used         [numKinds]int // slots of the send queue
	receiveTaken [numKinds]int // packets in the receive queue, or arriving
	received     [numKinds]*component.Queue[*Packet]

	quietUntil         sim.Time // when by-passing requests allow an own packet
	kickScheduledUntil sim.Time // time of the kick scheduled for that
	waitingSince       sim.Time // since when the first packet in waiting has waited
	starvingNodes      int      // nodes whose cleared go bits have come
	isStarving         bool

	trace *sim.Trace
	track sim.Track

	BusyEchoes uint64
	Busy       sim.Level // 1 while the output is in use
}

func newLink(n *Node, dim int) *link {
	s := n.net.s
	l := &link{
		s:        s,
		cfg:      &n.net.cfg,
		node:     n,
		dim:      dim,
		bypass:   component.NewQueue[unit](s, 0),
		arriving: component.NewQueue[unit](s, 0),
		waiting:  component.NewQueue[*slot](s, 0),
		echoes:   component.NewQueue[unit](s, 0),
	}
	for k := range l.received {
		l.received[k] = component.NewQueue[*Packet](s, 0)
	}
	for range l.cfg.MaxQueued {
		l.free = append(l.free, &slot{l: l})
	}
	return l
}

// hasSpace reports whether the send queue can take a packet of the kind.
func (l *link) hasSpace(k kind) bool { return len(l.free) > 0 && l.used[k] < l.cfg.MaxQueuedPerKind }

// reserve takes a slot of the send queue.
func (l *link) reserve(p *Packet) *slot {
	n := len(l.free) - 1
	o := l.free[n]
	l.free = l.free[:n]
	o.p, o.k = p, p.kind()
	l.used[o.k]++
	return o
}

// send queues the packet of a slot.
func (l *link) send(o *slot) {
	if l.waiting.Put(o); l.waiting.Len() == 1 {
		l.waitingSince = l.s.Now()
	}
	l.kick()
}

// kick sends the next unit, if the output is free: by-passing units first.
func (l *link) kick() {
	switch now := l.s.Now(); {
	case l.sending:
	case l.bypass.Len() > 0 && l.bypass.First().bypassExitTime <= now:
		u := l.bypass.Get()
		if done := l.transmit(u); !u.echo && u.packet.kind() == request {
			l.quietUntil = done + l.cfg.QuietTime
		}
		l.checkStarvation()
	case l.waiting.Len() == 0:
	case now < l.quietUntil:
		if l.kickScheduledUntil < l.quietUntil {
			l.kickScheduledUntil = l.quietUntil
			l.s.ScheduleAt(l.quietUntil, (*bypassReady)(l), 0, 0)
		}
	case l.starvingNodes == 0 || l.isStarving:
		o := l.waiting.Get()
		l.waitingSince = now
		l.transmit(unit{
			packet:      o.p,
			id:          o.p.ID,
			destination: l.node.exitLink(o.p, l.dim),
			senderSlot:  o,
		})
		l.endStarvation()
	}
}

// transmit puts a unit on the wire, and returns when the output is free again. The first symbol is at the next node at
// once: the wire's time is in the by-pass time.
func (l *link) transmit(u unit) sim.Time {
	symbols := l.cfg.EchoSymbols
	if !u.echo {
		symbols = l.cfg.symbols(u.packet.wireBytes())
	}
	l.sending = true
	l.Busy.Set(l.s.Now(), 1)
	done := l.s.Now() + l.cfg.symbolsTime(symbols+l.cfg.IdleSymbols)
	if l.trace != nil {
		l.trace.Span(l.track, u.name(l), l.s.Now(), done, u.id)
	}
	l.s.ScheduleAt(done, (*outputFree)(l), 0, 0)
	l.next.receiveHead(u)
	return done
}

type outputFree link

func (e *outputFree) Handle(int64, int64) {
	l := (*link)(e)
	l.sending = false
	l.Busy.Set(l.s.Now(), 0)
	l.kick()
}

// receiveHead handles the first symbol of a unit at the node.
func (l *link) receiveHead(u unit) {
	switch {
	case u.destination != l:
		l.enqueueBypass(u)
	case u.echo:
		l.echoes.Put(u)
		l.s.ScheduleAfter(l.cfg.symbolsTime(l.cfg.EchoSymbols), (*echoArrived)(l), 0, 0)
	default:
		k := u.packet.kind()
		if u.accepted = l.receiveTaken[k] < l.cfg.MaxQueuedPerKind &&
			l.receiveTaken[request]+l.receiveTaken[response] < l.cfg.MaxQueued; u.accepted {
			l.receiveTaken[k]++
		}
		l.arriving.Put(u)
		l.s.ScheduleAfter(l.cfg.storeTime(u.packet.wireBytes()), (*packetArrived)(l), 0, 0)
	}
}

// enqueueBypass puts a unit into the by-pass FIFO.
func (l *link) enqueueBypass(u unit) {
	u.bypassExitTime = l.s.Now() + l.cfg.BypassTime
	l.bypass.Put(u)
	l.s.ScheduleAt(u.bypassExitTime, (*bypassReady)(l), 0, 0)
}

type bypassReady link

func (e *bypassReady) Handle(int64, int64) { (*link)(e).kick() }

type packetArrived link

// Handle: the packet is in the receive queue, or was refused; an echo replaces its last symbols.
func (e *packetArrived) Handle(int64, int64) {
	l := (*link)(e)
	u := l.arriving.Get()
	l.enqueueBypass(unit{
		id:          u.id,
		echo:        true,
		accepted:    u.accepted,
		destination: u.senderSlot.l,
		senderSlot:  u.senderSlot,
	})
	if u.accepted {
		l.received[u.packet.kind()].Put(u.packet)
		l.node.BLink.Kick()
	}
}

type echoArrived link

// Handle frees the slot of an accepted packet, or sends the packet again.
func (e *echoArrived) Handle(int64, int64) {
	l := (*link)(e)
	u := l.echoes.Get()
	if !u.accepted {
		l.BusyEchoes++
		l.send(u.senderSlot)
		return
	}
	l.used[u.senderSlot.k]--
	u.senderSlot.p = nil
	l.free = append(l.free, u.senderSlot)
	l.node.BLink.Kick()
}

// checkStarvation clears the go bits if the first packet has waited too long.
func (l *link) checkStarvation() {
	if l.cfg.StarvationTime > 0 && !l.isStarving && l.waiting.Len() > 0 &&
		l.s.Now()-l.waitingSince >= l.cfg.StarvationTime {
		l.isStarving = true
		l.sendGoBits(1)
	}
}

// endStarvation sets the go bits again.
func (l *link) endStarvation() {
	if l.isStarving {
		l.isStarving = false
		l.sendGoBits(-1)
	}
}

// sendGoBits sends the go bits round the ring.
func (l *link) sendGoBits(d int64) {
	at := l.s.Now()
	for other := l.next; other != l; other = other.next {
		at += l.cfg.BypassTime
		l.s.ScheduleAt(at, (*goBit)(other), d, 0)
	}
}

type goBit link

func (e *goBit) Handle(d, _ int64) {
	e.starvingNodes += int(d)
	(*link)(e).kick()
}
