package topology

import "slices"

// maxTrimFlows bounds the search for unneeded dummies, in flows: about a second (10 ns each in a tree, 2026-11-21).
const maxTrimFlows = 100_000_000

// proposal is an order without conflicts.
type proposal struct {
	Order           Order
	Check           judgement
	EachDummyNeeded bool // without any one dummy there is a conflict
}

// propose looks for an order without conflicts and with few dummies: the given one, or a pattern of the network. It
// returns false if all of them have conflicts.
func (t *Topology) propose() (proposal, bool) {
	l, budget := t.newLoad(), maxTrimFlows
	var best proposal
	found := false
	for i, o := range t.candidates() {
		if o.places() > maxPlaces || found && best.Order.dummies() == 0 {
			continue
		}
		if free, _ := t.conflictFree(l, o); !free {
			continue
		}
		p := proposal{Order: o, EachDummyNeeded: o.dummies() == 0}
		if i > 0 {
			p.Order, p.EachDummyNeeded = t.trim(l, o, &budget)
		}
		if !found || p.Order.dummies() < best.Order.dummies() {
			best, found = p, true
		}
	}
	if found {
		best.Check = t.check(best.Order, 1)
	}
	return best, found
}

// candidates lists the given order, then the patterns of the network.
func (t *Topology) candidates() []Order {
	members := func(places []int) []int {
		out := slices.DeleteFunc(slices.Clone(places), func(n int) bool { return n == dummy })
		slices.SortFunc(out, func(a, b int) int { return comparePosition(t.Nodes[a], t.Nodes[b]) })
		return out
	}
	out := []Order{t.GivenOrder}
	for _, places := range t.net.patterns(t.Nodes, members(t.GivenOrder.BUs)) {
		out = append(out, t.arrangeOrder(members(t.GivenOrder.RUs), places))
	}
	return out
}

// arrangeOrder puts both units of a folded node at one place. Readout units apart from builder units stand side by side
// as in the network, so that those of one leaf send to consecutive places.
func (t *Topology) arrangeOrder(rus, bus []int) Order {
	if t.Folded {
		return Order{RUs: bus, BUs: bus}
	}
	return padOrder(rus, bus)
}

// trim leaves out dummies, one at a time, as long as there is no conflict and budget is left. It says whether each
// remaining dummy is needed.
func (t *Topology) trim(l *phaseLoad, o Order, budget *int) (Order, bool) {
	rus := slices.DeleteFunc(slices.Clone(o.RUs), func(n int) bool { return n == dummy })
	for tried := 0; tried < len(o.BUs) && *budget > 0; {
		// From the end: leaving out the last moves no other node.
		at := len(o.BUs) - 1 - tried
		tried++
		if o.BUs[at] != dummy {
			continue
		}
		less := t.arrangeOrder(slices.Clone(rus), slices.Delete(slices.Clone(o.BUs), at, at+1))
		if less.places() == o.places() {
			continue // the readout units need the place
		}
		free, flows := t.conflictFree(l, less)
		*budget -= flows
		if free {
			o, tried = less, 0
		}
	}
	return o, *budget > 0
}
