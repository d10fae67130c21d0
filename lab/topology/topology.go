package topology

import (
	"fmt"
	"slices"
)

// Bounds, so that a plan takes seconds and some megabytes at most. The document's tree can grow to 800 nodes, its
// ringlets to 107.
const (
	maxNodes  = 4096
	maxPlaces = 2 * maxNodes
)

// dummy is a place without a node.
const dummy = -1

// A Node is a host at its position in the network.
type Node struct {
	Name        string
	Row, Column int // leaf and port of a fat tree; row and column of a torus
}

// An Order lists the units at the places of the shift: indices of nodes, or dummy. Both lists have the same length; if
// every node is folded, they are the same list.
type Order struct {
	RUs, BUs []int
}

// places is the number of places, and of phases.
func (o Order) places() int { return len(o.BUs) }

// dummies counts the phases beyond those that the units need.
func (o Order) dummies() int { return o.places() - o.minPlaces() }

func (o Order) minPlaces() int { return max(countUnits(o.RUs), countUnits(o.BUs)) }

// factor is the largest share of the ports' rate that the order can use: the share of phases in which each port sends.
func (o Order) factor() float64 { return float64(o.minPlaces()) / float64(o.places()) }

func countUnits(places []int) int {
	n := 0
	for _, node := range places {
		if node != dummy {
			n++
		}
	}
	return n
}

// padOrder appends dummies to the shorter list.
func padOrder(rus, bus []int) Order {
	for len(rus) < len(bus) {
		rus = append(rus, dummy)
	}
	for len(bus) < len(rus) {
		bus = append(bus, dummy)
	}
	return Order{RUs: rus, BUs: bus}
}

// A Topology is a network with its nodes.
type Topology struct {
	Nodes      []Node
	Folded     bool  // every node has both units, at one place
	GivenOrder Order // as in the file
	net        network
}

// network is a kind of network. Its links form a grid, two in a cell, and all have the same capacity.
type network interface {
	kind() string
	describe() string
	grid() (rows, columns int)
	capacity() int                                    // flows that a link carries at the same time
	route(links []int, from, to Node) []int           // appends the links from one node to another
	linkName(link int) string                         // "leaf 2 → spine 4"
	linkLabel() string                                // capacity of a link in words: "1 link"
	axisNames() (row, column string, links [2]string) // names of rows, columns and links of the grid
	patterns(nodes []Node, members []int) [][]int     // sequences of places that may be free of conflicts
	// groups names the bottleneck that should carry one event at a time, and the group of each node.
	groups() (string, func(Node) int)
	notes(t *Topology) []string // sentences on limits of the map
}

// linkIndex is the index of a link in the grid of its network.
func linkIndex(columns, row, column, second int) int { return (row*columns+column)*2 + second }

// linkPosition is the inverse of linkIndex.
func linkPosition(columns, link int) (row, column, second int) {
	return link / 2 / columns, link / 2 % columns, link % 2
}

// FatTree is a folded tree of two layers with nodes n0, n1 … on all ports of each leaf but the last, which has the
// rest. A port decides the link, not only the spine. The caller keeps within the bounds of a file.
func FatTree(nodes, perLeaf, spines, links int) *Topology {
	leaves := (nodes + perLeaf - 1) / perLeaf
	t := &Topology{Folded: true, net: &tree{
		leaves:     leaves,
		spines:     spines,
		links:      links,
		linkByPort: true,
		ports:      slices.Repeat([]int{perLeaf}, leaves),
	}}
	for i := range nodes {
		t.Nodes = append(t.Nodes, Node{Name: fmt.Sprint("n", i), Row: i / perLeaf, Column: i % perLeaf})
		t.GivenOrder.BUs = append(t.GivenOrder.BUs, i)
	}
	t.GivenOrder.RUs = t.GivenOrder.BUs
	return t
}

// Links is the number of link indices. Some may have no link.
func (t *Topology) Links() int {
	rows, columns := t.net.grid()
	return 2 * rows * columns
}

// Capacity is how many flows a link carries at the same time.
func (t *Topology) Capacity() int { return t.net.capacity() }

// Route appends the indices of the links between switches on the path from one node to another.
func (t *Topology) Route(links []int, from, to int) []int {
	return t.net.route(links, t.Nodes[from], t.Nodes[to])
}

// Kind is fat-tree or torus.
func (t *Topology) Kind() string { return t.net.kind() }

// An emptySystemError says that the nodes left are no system.
type emptySystemError struct{ Why string }

func (e *emptySystemError) Error() string { return "topology: " + e.Why }

// KeepFirst leaves out all but the first n nodes.
func (t *Topology) KeepFirst(n int) error {
	if n < 1 || n > len(t.Nodes) {
		return &emptySystemError{fmt.Sprintf("the first %d nodes are asked for, and there are 1 to %d", n, len(t.Nodes))}
	}
	return t.filterNodes(func(i int) bool { return i < n }, false)
}

// Without leaves nodes out by name. In the given order the others move up.
func (t *Topology) Without(names ...string) error { return t.remove(names, false) }

// Lose leaves nodes out by name. In the given order dummies take their places, as in a run with seats that loses nodes.
func (t *Topology) Lose(names ...string) error { return t.remove(names, true) }

func (t *Topology) remove(names []string, keepPlaces bool) error {
	out := map[string]bool{}
	for _, name := range names {
		if !slices.ContainsFunc(t.Nodes, func(n Node) bool { return n.Name == name }) {
			return &emptySystemError{fmt.Sprintf("there is no node %q to leave out", name)}
		}
		out[name] = true
	}
	return t.filterNodes(func(i int) bool { return !out[t.Nodes[i].Name] }, keepPlaces)
}

// filterNodes keeps some of the nodes. In the given order dummies take the places of the others, if these places are
// kept.
func (t *Topology) filterNodes(keeps func(node int) bool, keepPlaces bool) error {
	now := make([]int, len(t.Nodes))
	var kept []Node
	for i, n := range t.Nodes {
		now[i] = dummy
		if keeps(i) {
			now[i] = len(kept)
			kept = append(kept, n)
		}
	}
	moved := func(places []int) []int {
		var out []int
		for _, node := range places {
			switch {
			case node != dummy && now[node] != dummy:
				out = append(out, now[node])
			case node == dummy || keepPlaces:
				out = append(out, dummy)
			}
		}
		return out
	}
	rus, bus := moved(t.GivenOrder.RUs), moved(t.GivenOrder.BUs)
	if countUnits(rus) == 0 || countUnits(bus) == 0 {
		return &emptySystemError{"a system needs a readout unit and a builder unit, and none would be left of one of them"}
	}
	t.Nodes = kept
	if t.Folded {
		t.GivenOrder = Order{RUs: bus, BUs: bus}
	} else {
		t.GivenOrder = padOrder(rus, bus)
	}
	return nil
}
