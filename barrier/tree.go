package barrier

import "math/bits"

// maxRanks is the largest N: messages have 16-bit ranks.
const maxRanks = 1 << 16

// noParent is the parent of the root, and of every rank in kinds without a tree.
const noParent = -1

// tree computes which rank arrives at which: no rank stores the bracket.
//
// Tournament: in round i (0, 1, …) the ranks still playing are the multiples of 2^i; r meets r+2^i if r is a multiple
// of 2^(i+1), and the lower one wins. A rank without an opponent (r+2^i ≥ n) has a bye. So a loser's winner is the rank
// with its lowest one bit cleared, and rank 0 is the champion.
type tree struct {
	kind Kind
	n    int
}

// parent returns the rank that r arrives at, or noParent.
func (t tree) parent(r int) int {
	switch {
	case t.kind == None || t.kind == Dissemination || r == 0:
		return noParent
	case t.kind == Central:
		return 0
	}
	return r & (r - 1)
}

// children returns how many ranks arrive at r.
func (t tree) children(r int) int {
	switch t.kind {
	case Central:
		if r == 0 {
			return t.n - 1
		}
		return 0
	case Tournament:
		if r >= t.n-1 {
			return 0
		}
		k := bits.Len(uint(t.n - 1 - r)) // opponents r+1, r+2, r+4, … below n
		if r != 0 {
			k = min(k, bits.TrailingZeros(uint(r))) // rounds won before losing
		}
		return k
	}
	return 0
}

// child returns the i-th rank that arrives at r; in a tournament, the one that loses against r in round i.
func (t tree) child(r, i int) int {
	if t.kind == Central {
		return i + 1
	}
	return r + 1<<i
}

// childIndex is the inverse of child.
func (t tree) childIndex(r, child int) (int, bool) {
	if child < 0 || child >= t.n || t.parent(child) != r {
		return 0, false
	}
	if t.kind == Central {
		return child - 1, true
	}
	return bits.TrailingZeros(uint(child - r)), true
}

// adjacent reports whether a and b are joined by an edge.
func (t tree) adjacent(a, b int) bool {
	return a != b && (t.parent(a) == b || t.parent(b) == a)
}

// nextHop returns r's neighbour on the way to another rank.
func (t tree) nextHop(r, to int) int {
	for p := to; p > r; { // parents are smaller than their children
		up := t.parent(p)
		if up == r {
			return p
		}
		p = up
	}
	return t.parent(r)
}
