package lhcb

import (
	"ringlet/barrier"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/part"
	"ringlet/tagnet"
)

// Pipeline of a part, all sequential:
//
//	1 turn      the order says what the node does now
//	2 prepare   its software gets the write ready
//	3 inject    segment by segment into the card's port, as it has room
//	4 take      the builder unit has a segment
//	5 done      the last one is acknowledged: the order goes on
//	6 enter     the phase is over: the barrier, if there is one

// node is a folded node: a readout unit, a builder unit and their card.
type node struct {
	w     *world
	index int
	track sim.Track
	order readoutunit.Order
	ring  readoutunit.Ring // the order, where it is one
	gate  *barrier.Core
	draw  *sim.Stream // sizes
	delay *sim.Stream // jitter

	// what the conductor does
	doing    doing
	since    sim.Time
	spent    [numberOfDoings]sim.Time
	sends    uint64 // place that is prepared
	ready    bool   // it is, and waits for a write before it
	underWay int    // writes without an acknowledgement
	phases   int
	cycles   int // of tokens, that are over
	over     int // writes

	flows  []flow // under way, in turns
	turn   int
	moving int // segments of this node in the network
	free   sim.Time
	acts   barrier.Actions

	sizes map[uint64]int // of the parts that were read, by MEP

	alone bool // there is a barrier and nothing else

	// the builder unit
	got    []int             // parts of the MEP in a slot
	wishes []wish            // MEPs that it asks parts of
	asking int               // parts that were asked for
	kept   []tagnet.Feedback // MEPs that the output has, or will have
}

// flow is a write under way.
type flow struct {
	place uint64
	to    int
	left  int // bytes of data to be injected
	path  []*part.Port
}

// doing is what a node's conductor does.
type doing uint8

const (
	idle      doing = iota // waits for tokens or windows
	preparing              // software
	sending                // waits for its write
	waiting                // inside the barrier
	numberOfDoings
)

// doings are their names in results and traces.
var doings = [numberOfDoings]string{"idle", "software", "transfer", "barrier"}

// begin changes what the node does.
func (n *node) begin(d doing) {
	now := n.w.s.Now()
	if now > n.since {
		n.w.trace.Span(n.track, doings[n.doing], n.since, now, int64(n.phases))
	}
	n.spent[n.doing] += now - n.since
	n.doing, n.since = d, now
}

// step takes turn after turn as the order says, until something has to happen first.
func (n *node) step() {
	for !n.ready && (n.doing == idle || n.doing == sending) && !n.w.ending {
		turn, place := n.order.Turn()
		switch turn {
		case readoutunit.Send:
			n.begin(preparing)
			n.sends = place
			c := n.w.c
			n.w.s.After(c.software+n.delay.Exp(c.jitter), (*prepared)(n), 0, 0)
		case readoutunit.Pass:
			n.begin(waiting)
			n.enter()
		case readoutunit.ForWrite:
			if n.doing != sending {
				n.begin(sending)
			}
			return
		default:
			if n.doing != idle {
				n.begin(idle)
			}
			return
		}
	}
}

type prepared node

// Handle: the software is ready to send.
func (e *prepared) Handle(_, _ int64) {
	n := (*node)(e)
	n.begin(sending)
	n.ready = true
	n.serve()
}

// serve writes what is prepared, if the node may have another write under way, and goes on.
func (n *node) serve() {
	if n.ready {
		if n.underWay >= n.w.c.writes {
			return
		}
		n.ready = false
		n.w.places = n.order.Serve(n.sends, 1, n.w.places[:0])
		for _, place := range n.w.places {
			t := n.order.At(place)
			n.underWay++
			n.w.send(n, flow{
				place: place,
				to:    int(t.BU),
				left:  n.sizes[t.MEP],
			})
		}
	}
	n.step()
}

// send begins a write.
func (w *world) send(n *node, f flow) {
	f.path = w.tree.path(nil, w.seat[n.index], w.seat[f.to])
	w.sent += uint64(f.left)
	n.flows = append(n.flows, f)
	n.inject()
}

// ahead is how many segments of a node may be in its card's port.
const ahead = 2

// inject gives the card what it has room for, a segment of each flow in turn.
func (n *node) inject() {
	for len(n.flows) > 0 && n.moving < ahead {
		if n.turn >= len(n.flows) {
			n.turn = 0
		}
		f := &n.flows[n.turn]
		data := min(f.left, n.w.c.segment)
		f.left -= data
		p := n.w.pool.Get()
		p.Src, p.Dst = int32(n.index), int32(f.to)
		p.Size = n.w.c.wire(data)
		p.Path, p.To = f.path, n.w.nodes[f.to]
		p.ID, p.Part, p.Last = int64(f.place), int64(data), f.left == 0
		if p.Last {
			n.flows = append(n.flows[:n.turn], n.flows[n.turn+1:]...)
		} else {
			n.turn++
		}
		n.moving++
		if !part.Inject(p) {
			panic("lhcb: a card's port has no limit, and refused a segment")
		}
	}
}

type left node

// Handle: a segment has left the card.
func (e *left) Handle(_, _ int64) {
	n := (*node)(e)
	n.moving--
	n.inject()
}

// Take has a segment in the memory of the builder unit.
func (n *node) Take(p *part.Packet) {
	w := n.w
	w.placed += uint64(p.Part)
	from, place, last := w.nodes[p.Src], p.ID, p.Last
	w.pool.Put(p)
	if !last {
		return
	}
	w.parts++
	w.landed(from, place, n)
}

// whole has a whole part at its builder unit.
func (w *world) whole(from *node, place int64, n *node) {
	t := from.order.At(uint64(place))
	delete(from.sizes, t.MEP)
	if n.got[t.Slot]++; n.got[t.Slot] == len(w.nodes) {
		n.got[t.Slot] = 0
		n.complete(t.Token)
	}
	w.s.After(w.c.hop, (*done)(from), place, 0)
	if w.c.discipline == pull {
		n.asking--
		n.ask()
	}
	w.count()
}

type done node

// Handle: a write is acknowledged.
func (e *done) Handle(place, _ int64) {
	n := (*node)(e)
	n.underWay--
	if n.over++; n.w.c.discipline != shift && n.over%len(n.w.nodes) == 0 { // there is no round that ends
		n.cycles++
		n.w.read(n)
	}
	n.w.must(n.order.Complete([]uint64{uint64(place)}))
	n.serve()
	n.forward()
}

// enter is at the end of a phase.
func (n *node) enter() {
	if n.gate == nil {
		n.pass()
		return
	}
	n.acts.Send, n.acts.Released = n.acts.Send[:0], false
	n.w.must(n.gate.Enter(n.w.micros(), &n.acts))
	n.signal(n.w.s.Now())
}

// signal sends what the barrier asked for, message by message, and leaves it if it is over.
func (n *node) signal(from sim.Time) {
	n.free = max(n.free, from)
	for _, m := range n.acts.Send {
		n.free += n.w.c.cost
		n.w.messages++
		n.w.s.At(n.free+n.w.c.flight, (*arrived)(n.w.nodes[m.To]), n.w.letters.put(m), 0)
	}
	if n.acts.Released {
		n.w.s.At(n.free, (*released)(n), 0, 0)
	}
}

type arrived node

// Handle: a message is here, and waits for the processor.
func (e *arrived) Handle(message, _ int64) {
	n := (*node)(e)
	n.free = max(n.free, n.w.s.Now()) + n.w.c.cost
	n.w.s.At(n.free, (*handled)(n), message, 0)
}

type handled node

// Handle: the processor has the message.
func (e *handled) Handle(message, _ int64) {
	n := (*node)(e)
	n.acts.Send, n.acts.Released = n.acts.Send[:0], false
	n.w.must(n.gate.Receive(n.w.letters.get(message), n.w.micros(), &n.acts))
	n.signal(n.w.s.Now())
}

type released node

// Handle: the barrier is over for this node.
func (e *released) Handle(_, _ int64) {
	n := (*node)(e)
	if n.alone {
		n.phases++
		return
	}
	n.pass()
	n.step()
}

// pass goes on to the next phase.
func (n *node) pass() {
	n.begin(idle)
	n.phases++
	before := n.order.Round()
	n.order.Passed(1)
	if n.order.Round() != before {
		n.cycles++
		n.w.read(n)
	}
}
