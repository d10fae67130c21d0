package topology

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lhcb is the tree of LHCb-EB §IV.A with these nodes: for each leaf, which of its 20 ports are taken.
func lhcb(occupied [][]bool, fixed bool) *Topology {
	n := &tree{
		leaves:     len(occupied),
		spines:     10,
		links:      2,
		linkByPort: fixed,
		ports:      slices.Repeat([]int{20}, len(occupied)),
	}
	t := &Topology{Folded: true, net: n}
	var all []int
	for leaf, ports := range occupied {
		for port, is := range ports {
			if is {
				all = append(all, len(t.Nodes))
				t.Nodes = append(t.Nodes, Node{fmt.Sprint("n", len(t.Nodes)), leaf, port})
			}
		}
	}
	t.GivenOrder = Order{RUs: all, BUs: all}
	return t
}

func full(leaves, ports int) [][]bool {
	return slices.Repeat([][]bool{slices.Repeat([]bool{true}, ports)}, leaves)
}

// The proof for the tree of LHCb-EB §IV.A: with all 360 nodes in the order of their ports no link carries more flows
// than it has links, in any of the 360 phases; and with a dummy in the place of any node the flows are some of the same
// ones, so that no link carries more than before. Hence every filling of up to 20 nodes a leaf has an order without
// conflicts. The first half is counted here, for both ways of using parallel links; the second is the next test.
func TestDocumentsTreeIsFree(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		top := lhcb(full(18, 20), fixed)
		c := top.check(top.GivenOrder, 0)
		if !c.conflictFree() || c.MaxFlows != top.net.capacity() || top.GivenOrder.places() != 360 {
			t.Errorf("fixed %v: %d places, %+v", fixed, top.GivenOrder.places(), c)
		}
	}
}

func TestDummiesNeverAddFlows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		less := Order{RUs: slices.Clone(top.GivenOrder.RUs), BUs: slices.Clone(top.GivenOrder.BUs)}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, less.places()-1), 0, 5).Draw(t, "leaves") {
			less.RUs[i], less.BUs[i] = dummy, dummy
		}
		before, after := top.newLoad(), top.newLoad()
		for p := range less.places() {
			top.countPhase(before, top.GivenOrder, p)
			top.countPhase(after, less, p)
			for link := range after.flows {
				if after.flows[link] > before.flows[link] {
					t.Fatalf("phase %d: %s carries %d flows, more than %d", p, top.net.linkName(link), after.flows[link],
						before.flows[link])
				}
			}
		}
	})
}

// A run whose order has no conflicts has none after the loss of nodes either: a dummy takes the place of each.
func TestLostNodesBringNoConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		best, found := top.propose()
		if !found {
			return
		}
		top.GivenOrder = best.Order
		lost := rapid.IntRange(0, len(top.Nodes)-1).Draw(t, "lost")
		var empty *emptySystemError
		switch err := top.Lose(top.Nodes[lost].Name); {
		case errors.As(err, &empty):
			return
		case err != nil:
			t.Fatal(err)
		}
		if conflicts, _ := naive(top, top.GivenOrder); conflicts > 0 || top.GivenOrder.places() != best.Order.places() {
			t.Fatalf("%v: %d conflicts after the loss of node %d of %v", top.GivenOrder, conflicts, lost, best.Order)
		}
	})
}

// Whatever is missing of the document's tree: an order is proposed, it is free, everybody has one place, and it is no
// longer than the 360 of the full tree.
func TestEveryFillingOfTheDocumentsTree(t *testing.T) {
	check := func(t rapid.TB, occupied [][]bool, fixed bool) {
		top := lhcb(occupied, fixed)
		best, found := top.propose()
		if !found {
			t.Fatal("nothing is proposed")
		}
		if best.Order.places() > 360 || best.Order.dummies() != best.Order.places()-len(top.Nodes) {
			t.Fatalf("%d places, %d dummies for %d nodes", best.Order.places(), best.Order.dummies(), len(top.Nodes))
		}
		holdsAll(t, best.Order.BUs, top.GivenOrder.BUs)
		if c := top.check(best.Order, 1); !c.conflictFree() {
			t.Fatalf("conflicts in the proposed order: %+v", c)
		}
	}
	for nodes := 1; nodes <= 20; nodes++ {
		check(t, full(18, nodes), false)
	}
	rapid.Check(t, func(t *rapid.T) {
		occupied := make([][]bool, rapid.IntRange(1, 18).Draw(t, "leaves"))
		for leaf := range occupied {
			occupied[leaf] = make([]bool, 20)
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0: // the first ones
				for port := range rapid.IntRange(1, 20).Draw(t, "nodes") {
					occupied[leaf][port] = true
				}
			case 1: // all but some
				for port := range occupied[leaf] {
					occupied[leaf][port] = true
				}
				for _, port := range rapid.SliceOfN(rapid.IntRange(0, 19), 0, 3).Draw(t, "missing") {
					occupied[leaf][port] = false
				}
			default:
				copy(occupied[leaf], rapid.SliceOfN(rapid.Bool(), 20, 20).Draw(t, "ports"))
				occupied[leaf][0] = true
			}
		}
		check(t, occupied, rapid.Bool().Draw(t, "fixed"))
	})
}

// holdsAll says whether the places hold exactly these units, once each.
func holdsAll(t rapid.TB, places, want []int) {
	real := func(s []int) []int {
		s = slices.DeleteFunc(slices.Clone(s), func(n int) bool { return n == dummy })
		slices.Sort(s)
		return s
	}
	if !slices.Equal(real(places), real(want)) {
		t.Fatalf("the places hold %v, not %v", places, want)
	}
}

// naive counts conflicts and the most flows on a link from the rules alone, with links by name.
func naive(t *Topology, o Order) (conflicts, most int) {
	for p := range o.places() {
		flows := map[string]int{}
		for i, from := range o.RUs {
			to := o.BUs[(i+p)%o.places()]
			if from != dummy && to != dummy && from != to {
				for _, l := range linksByRule(t.net, t.Nodes[from], t.Nodes[to]) {
					flows[l]++
				}
			}
		}
		for _, n := range flows {
			most = max(most, n)
			if n > t.net.capacity() {
				conflicts++
			}
		}
	}
	return conflicts, most
}

func linksByRule(n network, from, to Node) []string {
	switch n := n.(type) {
	case *tree:
		if from.Row == to.Row {
			return nil
		}
		spine := fmt.Sprint("spine ", to.Column%n.spines)
		if n.linkByPort {
			spine += fmt.Sprint(" link ", to.Column/n.spines%n.links)
		}
		return []string{fmt.Sprint("up ", from.Row, spine), fmt.Sprint("down ", to.Row, spine)}
	case *torus:
		var out []string
		at := from
		for at.Column != to.Column {
			out = append(out, fmt.Sprint("along ", at))
			at.Column = (at.Column + 1) % n.columns
			at.Name = ""
		}
		for at.Row != to.Row {
			out = append(out, fmt.Sprint("down ", at.Row, at.Column))
			at.Row = (at.Row + 1) % n.rows
		}
		for i := range out { // a node's name is no part of a link's
			out[i] = strings.ReplaceAll(out[i], from.Name, "")
		}
		return out
	}
	panic("another network")
}

// anyTopology draws a small one: with gaps, folded or not, in any order.
func anyTopology(t *rapid.T) *Topology {
	rows, columns := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "columns")
	top := &Topology{Folded: rapid.Bool().Draw(t, "folded")}
	if rapid.Bool().Draw(t, "tree") {
		top.net = &tree{
			leaves:     rows,
			spines:     rapid.IntRange(1, 4).Draw(t, "spines"),
			links:      rapid.IntRange(1, 3).Draw(t, "links"),
			linkByPort: rapid.Bool().Draw(t, "fixed"),
			ports:      slices.Repeat([]int{columns}, rows),
		}
	} else {
		top.net = &torus{rows: rows, columns: columns, linkFlows: rapid.IntRange(1, 2).Draw(t, "flows")}
	}
	for r := range rows {
		for c := range columns {
			if r+c == 0 || rapid.IntRange(0, 4).Draw(t, "there") > 0 {
				top.Nodes = append(top.Nodes, Node{fmt.Sprint("n", len(top.Nodes), ";"), r, c})
			}
		}
	}
	all := make([]int, len(top.Nodes))
	for i := range all {
		all[i] = i
	}
	bus := rapid.Permutation(all).Draw(t, "order")
	if top.GivenOrder = (Order{RUs: bus, BUs: bus}); !top.Folded {
		rus := rapid.Permutation(all).Draw(t, "rus")[:rapid.IntRange(1, len(all)).Draw(t, "RUs")]
		top.GivenOrder = padOrder(slices.Clone(rus), slices.Clone(bus[:rapid.IntRange(1, len(all)).Draw(t, "BUs")]))
	}
	return top
}

// Checks and proposals of any topology are what the rules say, and proposals of others than the given order are never
// longer.
func TestAnyTopology(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		c := top.check(top.GivenOrder, 0)
		conflicts, most := naive(top, top.GivenOrder)
		if c.Conflicts != conflicts || c.MaxFlows != most || len(c.Described) != conflicts {
			t.Fatalf("%+v, and by the rules %d conflicts and %d flows", c, conflicts, most)
		}
		for _, s := range c.Described {
			if len(s.Flows) <= top.net.capacity() {
				t.Fatalf("no conflict: %s", s)
			}
		}
		best, found := top.propose()
		if !found {
			if c.conflictFree() {
				t.Fatal("the given order is free, and nothing is proposed")
			}
			return
		}
		holdsAll(t, best.Order.BUs, top.GivenOrder.BUs)
		holdsAll(t, best.Order.RUs, top.GivenOrder.RUs)
		if conflicts, _ := naive(top, best.Order); conflicts > 0 || top.Folded &&
			!slices.Equal(best.Order.RUs, best.Order.BUs) {
			t.Fatalf("proposed %+v with %d conflicts", best.Order, conflicts)
		}
		if c.conflictFree() && best.Order.dummies() > top.GivenOrder.dummies() {
			t.Fatal("the given order has fewer dummies than the proposed one")
		}
		if best.EachDummyNeeded {
			everyDummyIsNeeded(t, top, best.Order)
		}
	})
}

func everyDummyIsNeeded(t *rapid.T, top *Topology, o Order) {
	for i, node := range o.BUs {
		if node != dummy {
			continue
		}
		rus := slices.DeleteFunc(slices.Clone(o.RUs), func(n int) bool { return n == dummy })
		less := top.arrangeOrder(rus, slices.Delete(slices.Clone(o.BUs), i, i+1))
		if conflicts, _ := naive(top, less); conflicts == 0 && less.places() < o.places() {
			t.Fatalf("the dummy at place %d of %v is not needed", i, o)
		}
	}
}

// The figures of L1-farm §5.1.4 and §5.3, which are there from values before rounding.
func TestLatency(t *testing.T) {
	nine := &torus{rows: 3, columns: 9}
	if l := nine.longest(); math.Abs(l.Idle-2.44) > 0.015 || math.Abs(l.Busy-4.17) > 0.015 {
		t.Errorf("9 × 3: %+v, the document has 2.44 and 4.17", l)
	}
	// m + n - 4 nodes passed by: the longest way there is must be what its formula says.
	for _, n := range []*torus{{rows: 3, columns: 9}, {rows: 17, columns: 18}, {rows: 2, columns: 2}} {
		top := &Topology{net: n, Nodes: []Node{{"a", 0, 0}, {"b", n.rows - 1, n.columns - 1}},
			GivenOrder: Order{RUs: []int{0}, BUs: []int{1}}}
		if n.worst(top) != n.longest() {
			t.Errorf("%d × %d: %+v, by the formula %+v", n.rows, n.columns, n.worst(top), n.longest())
		}
	}
}
