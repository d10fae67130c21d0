package lhcb

import (
	"ringlet/sim"
	"ringlet/sim/part"
)

// Tree is a folded Clos network of two layers: leaves, spines, and links between each leaf and each spine. Node i is on
// port i mod perLeaf of leaf i / perLeaf.
type tree struct {
	perLeaf, spines, links int
	leaves                 int

	card []*part.Port // by node: from its card to its leaf
	down []*part.Port // by node: from its leaf to its card
	up   []*part.Port // by leaf and link: from the leaf to a spine
	to   []*part.Port // by leaf and link: from a spine to the leaf
}

// links of the tree that a route takes besides those of the nodes' own cards.
type route struct{ up, down int }

// local stands for a route within a leaf.
var local = route{-1, -1}

func newTree(nodes, perLeaf, spines, links int) *tree {
	return &tree{
		perLeaf: perLeaf,
		spines:  spines,
		links:   links,
		leaves:  (nodes + perLeaf - 1) / perLeaf,
	}
}

// uplinks is how many links a leaf has to the spines.
func (t *tree) uplinks() int { return t.spines * t.links }

// route is the way from one node to another: by the port of the destination (002:199).
func (t *tree) route(from, to int) route {
	a, b := from/t.perLeaf, to/t.perLeaf
	if a == b {
		return local
	}
	link := to % t.perLeaf % t.uplinks()
	return route{a*t.uplinks() + link, b*t.uplinks() + link}
}

// connect makes the ports.
func (t *tree) connect(s *sim.Sim, nodes int, cfg part.PortConfig) {
	ports := func(n int, cfg part.PortConfig) []*part.Port {
		all := make([]*part.Port, n)
		for i := range all {
			all[i] = part.NewPort(s, cfg)
		}
		return all
	}
	t.down = ports(nodes, cfg)
	t.up, t.to = ports(t.leaves*t.uplinks(), cfg), ports(t.leaves*t.uplinks(), cfg)
	cfg.Buffer = 0 // a card takes what its node gives it
	t.card = ports(nodes, cfg)
}

// path appends the ports from one node to another.
func (t *tree) path(ports []*part.Port, from, to int) []*part.Port {
	ports = append(ports, t.card[from])
	if from == to { // through its own card
		return ports
	}
	if r := t.route(from, to); r != local {
		ports = append(ports, t.up[r.up], t.to[r.down])
	}
	return append(ports, t.down[to])
}
