package sci

import (
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
)

// Net is a torus of any number of dimensions: a ring along each line of nodes. One dimension is a ring.
type Net struct {
	s             *sim.Sim
	cfg           Config
	dimensions    []int
	nodes         []*Node
	free          []*Packet
	ringCrossings *component.Queue[*slot] // packets that change rings
	trace         *sim.Trace
}

// New makes a torus: New(s, cfg, 10, 3) has three rings of ten nodes along X, and ten rings of three. Node x + 10 y has
// the coordinates x, y.
func New(s *sim.Sim, cfg Config, size ...int) *Net {
	n := &Net{
		s:             s,
		cfg:           cfg,
		dimensions:    size,
		ringCrossings: component.NewQueue[*slot](s, 0),
	}
	count := 1
	for _, c := range size {
		count *= c
	}
	for i := range count {
		n.nodes = append(n.nodes, n.newNode(i))
	}
	for _, node := range n.nodes {
		for dim, l := range node.links {
			if l != nil {
				at := append([]int(nil), node.coords...)
				at[dim] = (at[dim] + 1) % size[dim]
				l.next = n.nodes[n.nodeIndex(at)].links[dim]
			}
		}
	}
	if t := s.Trace(); t != nil {
		n.traceTo(t)
	}
	if s.InstrumentsEnabled() {
		n.instrument()
	}
	return n
}

func (n *Net) newNode(i int) *Node {
	node := &Node{
		net:          n,
		PCI:          component.NewBus(n.s, 0),
		BLink:        component.NewBus(n.s, 0),
		filling:      component.NewQueue[*Packet](n.s, 0),
		crossingCard: component.NewQueue[*Packet](n.s, 0),
		incoming:     component.NewQueue[*Packet](n.s, 0),
	}
	for _, c := range n.dimensions {
		node.coords = append(node.coords, i%c)
		i /= c
	}
	for k := range numKinds {
		node.outgoing[k] = component.NewQueue[*Packet](n.s, 0)
		node.BLink.Attach(&blinkClient{n: node, queue: node.outgoing[k], k: k})
	}
	for dim, c := range n.dimensions {
		node.links = append(node.links, nil)
		if c < 2 {
			continue
		}
		l := newLink(node, dim)
		node.links[dim] = l
		for k := range numKinds {
			node.BLink.Attach(&blinkClient{
				n:     node,
				queue: l.received[k],
				l:     l,
				k:     k,
			})
		}
	}
	node.PCI.Attach((*cardWriter)(node))
	return node
}

// traceTo traces to t: a track for each node's bus, and for each of its outputs.
func (n *Net) traceTo(t *sim.Trace) {
	n.trace = t
	for i, node := range n.nodes {
		node.track = t.Track(fmt.Sprintf("node %d bus", i))
		for dim, l := range node.links {
			if l != nil {
				l.trace, l.track = t, t.Track(fmt.Sprintf("node %d ring %d", i, dim))
			}
		}
	}
}

// sampleInterval is the initial interval between two points of a curve.
const sampleInterval = sim.Microsecond

// instrument watches the queues, summed over all nodes.
func (n *Net) instrument() {
	each := func(name string, count func(*link) int) {
		n.s.Watch(name, sampleInterval, func() (sum int64) {
			for _, node := range n.nodes {
				for _, l := range node.links {
					if l != nil {
						sum += int64(count(l))
					}
				}
			}
			return sum
		})
	}
	each("packets in by-pass FIFOs", func(l *link) int { return l.bypass.Len() })
	each("packets in send queues", func(l *link) int { return l.used[request] + l.used[response] })
	each("packets in receive queues", func(l *link) int { return l.receiveTaken[request] + l.receiveTaken[response] })
}

// Node is node i.
func (n *Net) Node(i int) *Node { return n.nodes[i] }

// nodeIndex is the index of the node at those coordinates.
func (n *Net) nodeIndex(at []int) int {
	i := 0
	for dim := len(at) - 1; dim >= 0; dim-- {
		i = i*n.dimensions[dim] + at[dim]
	}
	return i
}

// Retried is the number of busy echoes in the whole network.
func (n *Net) Retried() (sum uint64) {
	n.forEachLink(func(l *link) { sum += l.BusyEchoes })
	return sum
}

// OutputUse is the share of time in which a node's output in a dimension was busy.
func (n *Net) OutputUse(node, dim int) float64 { return n.nodes[node].links[dim].Busy.Mean(n.s.Now()) }

func (n *Net) forEachLink(do func(*link)) {
	for _, node := range n.nodes {
		for _, l := range node.links {
			if l != nil {
				do(l)
			}
		}
	}
}

// packet reuses a packet, if there is one.
func (n *Net) packet() *Packet {
	if i := len(n.free) - 1; i >= 0 {
		p := n.free[i]
		n.free = n.free[:i]
		*p = Packet{}
		return p
	}
	return new(Packet)
}
