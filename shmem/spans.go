package shmem

// noSpan is the nil link of a spanTree.
const noSpan = int32(-1)

// spanTree holds the live grants of all segments of a table: a treap for each segment, ordered
// by offset, whose nodes are preallocated, one per window. Grants are disjoint, so order by
// offset is order by end, and an overlap can only be with a neighbour.
//
// A treap, because grants of one slot come in rising order and would degrade a plain tree, and
// because a sorted array moves tens of kB per grant at 1e5 grants per second.
type spanTree struct {
	nodes []span
	rng   uint64
}

type span struct {
	off, end    int // bytes, half open
	left, right int32
	prio        uint32
}

func newSpanTree(n int) spanTree {
	return spanTree{nodes: make([]span, n), rng: 0x9E3779B97F4A7C15}
}

// insert enters [off, end) as node i, or reports false when it overlaps a span of the tree.
func (t *spanTree) insert(root *int32, i int32, off, end int) bool {
	if t.overlap(*root, off, end) {
		return false
	}
	// xorshift64: the priorities need to be unlike the insertion order, no more.
	t.rng ^= t.rng << 13
	t.rng ^= t.rng >> 7
	t.rng ^= t.rng << 17
	n := &t.nodes[i]
	*n = span{off: off, end: end, prio: uint32(t.rng >> 32)}

	link := root
	for *link != noSpan && t.nodes[*link].prio >= n.prio {
		c := &t.nodes[*link]
		if off < c.off {
			link = &c.left
		} else {
			link = &c.right
		}
	}
	below := *link
	*link = i
	t.split(below, off, &n.left, &n.right)
	return true
}

// overlap says whether a span of the tree and [off, end) have a byte in common.
func (t *spanTree) overlap(at int32, off, end int) bool {
	for at != noSpan {
		c := &t.nodes[at]
		switch {
		case end <= c.off:
			at = c.left
		case off >= c.end:
			at = c.right
		default:
			return true
		}
	}
	return false
}

// split hands the spans of the subtree at to left (before off) and right (after off).
func (t *spanTree) split(at int32, off int, left, right *int32) {
	for at != noSpan {
		c := &t.nodes[at]
		if c.off < off {
			*left, left, at = at, &c.right, c.right
		} else {
			*right, right, at = at, &c.left, c.left
		}
	}
	*left, *right = noSpan, noSpan
}

// remove takes node i, which begins at off, out of the tree.
func (t *spanTree) remove(root *int32, i int32, off int) {
	link := root
	for *link != i {
		c := &t.nodes[*link]
		if off < c.off {
			link = &c.left
		} else {
			link = &c.right
		}
	}
	l, r := t.nodes[i].left, t.nodes[i].right
	for l != noSpan && r != noSpan {
		if t.nodes[l].prio >= t.nodes[r].prio {
			*link, link, l = l, &t.nodes[l].right, t.nodes[l].right
		} else {
			*link, link, r = r, &t.nodes[r].left, t.nodes[r].left
		}
	}
	*link = max(l, r) // at most one of them is left; noSpan is below every index
}
