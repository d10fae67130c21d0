package topology

import (
	"fmt"
	"slices"
	"strings"
)

// tree is a folded Clos network of two layers: every leaf has links to every spine, and a packet to another leaf takes
// the spine of its destination's port, S(p) = p mod spines.
//
// Ports of one class share up-links and down-links. If switches spread the flows to one spine over its parallel links,
// the class of a port is its spine, and carries as many flows as there are links. If the port also decides the link,
// each link is a class of its own, p mod (spines × links), and carries one flow.
type tree struct {
	leaves, spines, links int
	linkByPort            bool  // the port decides the link, not only the spine
	ports                 []int // for nodes, by leaf
}

func (n *tree) kind() string { return "fat-tree" }

func (n *tree) classes() int {
	if n.linkByPort {
		return n.spines * n.links
	}
	return n.spines
}

func (n *tree) capacity() int {
	if n.linkByPort {
		return 1
	}
	return n.links
}

func (n *tree) grid() (int, int) { return n.leaves, n.classes() }

func (n *tree) describe() string {
	ports := fmt.Sprint(slices.Min(n.ports))
	if most := slices.Max(n.ports); most != slices.Min(n.ports) {
		ports += fmt.Sprintf(" to %d", most)
	}
	return fmt.Sprintf("fat tree of %d leaves with %s ports each and %d spines, %s from each leaf to each spine; spine "+
		"= port of the destination mod %d",
		n.leaves, ports, n.spines, count(n.links, "link"), n.spines)
}

func (n *tree) linkLabel() string { return count(n.capacity(), "link") }

func (n *tree) axisNames() (string, string, [2]string) {
	column := "spine"
	if n.linkByPort && n.links > 1 {
		column = "spine × link"
	}
	return "leaf", column, [2]string{"leaf → " + column, column + " → leaf"}
}

// Links of the grid: leaf, class, up or down.
const upLink, downLink = 0, 1

func (n *tree) route(links []int, from, to Node) []int {
	if from.Row == to.Row {
		return links
	}
	class := to.Column % n.classes()
	return append(links, linkIndex(n.classes(), from.Row, class, upLink), linkIndex(n.classes(), to.Row, class, downLink))
}

func (n *tree) linkName(l int) string {
	leaf, class, direction := linkPosition(n.classes(), l)
	spine := fmt.Sprintf("spine %d", class%n.spines)
	if n.linkByPort && n.links > 1 {
		spine += fmt.Sprintf(" (link %d)", class/n.spines)
	}
	if direction == upLink {
		return fmt.Sprintf("leaf %d → %s", leaf, spine)
	}
	return fmt.Sprintf("%s → leaf %d", spine, leaf)
}

func (n *tree) groups() (string, func(Node) int) { return "leaf", func(x Node) int { return x.Row } }

// patterns proposes three sequences.
//
// The first has no dummies: leaf after leaf, in each as many rounds over the classes as it has nodes. It is free of
// conflicts if leaves are alike, or if the links leave room.
//
// The others are woven: classes come in a fixed pattern again and again, and a place may hold any node of its class, on
// whatever leaf. A shift by p turns the pattern by p, so a leaf sends to as many places of a class as it has nodes at
// the places turned onto them. That is never more than there are links, however the nodes are spread over the leaves,
//
//   - if each class is in the pattern as often as any leaf has nodes of it, and no leaf has two nodes at one place of
//     the pattern: they send to different places of it. With alike leaves this is the document's order, leaf after
//     leaf;
//   - if each class is in the pattern once: a leaf then sends to one class as many flows as it has nodes of another.
//
// A dummy is needed where a class has run out of nodes. Which of the two needs fewer depends on how even the classes
// are.
func (n *tree) patterns(nodes []Node, members []int) [][]int {
	byClass := make([][]int, n.classes())
	most := make([]int, n.classes()) // nodes of that class on any one leaf
	once := make([]int, n.classes())
	var bare []int
	for _, classes := range n.groupMembers(nodes, members) {
		for round, more := 0, true; more; round++ {
			more = false
			for _, of := range classes {
				if round < len(of) {
					bare, more = append(bare, of[round]), true
				}
			}
		}
		for c, of := range classes {
			byClass[c] = append(byClass[c], of...)
			most[c] = max(most[c], len(of))
			once[c] = min(len(byClass[c]), 1)
		}
	}
	return [][]int{bare, weaveClasses(byClass, most), weaveClasses(byClass, once)}
}

// weaveClasses makes rounds over the classes until every node has a place. Each round has wide[c] places of class c.
// Nodes of a leaf are consecutive in byClass, so up to wide[c] of them get different places of the pattern.
func weaveClasses(byClass [][]int, wide []int) []int {
	rounds := 0
	for c, of := range byClass {
		if wide[c] > 0 {
			rounds = max(rounds, (len(of)+wide[c]-1)/wide[c])
		}
	}
	var out []int
	for round := range rounds {
		for j := range slices.Max(wide) {
			for c, of := range byClass {
				if j >= wide[c] {
					continue
				}
				node := dummy
				if i := round*wide[c] + j; i < len(of) {
					node = of[i]
				}
				out = append(out, node)
			}
		}
	}
	return out
}

// groupMembers lists the members by leaf and class, in the order of their ports. It leaves out leaves without any.
func (n *tree) groupMembers(nodes []Node, members []int) [][][]int {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b int) int { return comparePosition(nodes[a], nodes[b]) })
	var out [][][]int
	for i, m := range members {
		if i == 0 || nodes[m].Row != nodes[members[i-1]].Row {
			out = append(out, make([][]int, n.classes()))
		}
		leaf := out[len(out)-1]
		c := nodes[m].Column % n.classes()
		leaf[c] = append(leaf[c], m)
	}
	return out
}

// notes finds ports that share too few down-links: no order of the other nodes helps there.
func (n *tree) notes(t *Topology) []string {
	var out []string
	var bus []int
	for _, node := range t.GivenOrder.BUs {
		if node != dummy {
			bus = append(bus, node)
		}
	}
	for _, classes := range n.groupMembers(t.Nodes, bus) {
		for c, of := range classes {
			if len(of) <= n.capacity() {
				continue
			}
			names := make([]string, len(of))
			for i, node := range of {
				names[i] = fmt.Sprintf("%s (port %d)", t.Nodes[node].Name, t.Nodes[node].Column)
			}
			leaf := t.Nodes[of[0]].Row
			out = append(out, fmt.Sprintf(
				"%s serves %d builder units over %s: %s; at best dummies keep them apart: better move %d of them to ports of "+
					"other spines",
				n.linkName(linkIndex(n.classes(), leaf, c, downLink)), len(of), n.linkLabel(), strings.Join(names,
					", "), len(of)-n.capacity()))
		}
	}
	return out
}

// comparePosition compares nodes by their positions in the network.
func comparePosition(a, b Node) int {
	if a.Row != b.Row {
		return a.Row - b.Row
	}
	return a.Column - b.Column
}

// count is "1 link", "2 links".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
