package barrier

import "math/bits"

// The way of an inquiry through a tree is found by formula. In a dissemination a
// query goes from a rank to the one it waits for, back by 2^k in round k, and each
// step is of a lower round than the one before: a rank that has not sent its signal
// of round k waits in a round below k. So the steps are the bits of a number, the
// path: the query's origin is its receiver's rank plus the path, and the lowest bit
// is the last step. A reply goes back over the same ranks, lowest bit first; its
// path is what lies between its receiver and the origin. The origin alone would not
// do: modulo N two paths can lead to it, and one of them through a dead rank.

// stepBack takes the last step off a path.
func stepBack(path uint16) uint16 { return path & (path - 1) }

// mayAsk reports whether the origin of a query can have asked this rank by way of its sender.
func (c *Core) mayAsk(m Message) bool {
	origin, from := int(m.Origin), int(m.From)
	switch {
	case origin >= c.tree.n || origin == c.rank:
		return false
	case c.rounds == 0:
		return m.Path == 0 && c.tree.towards(c.rank, origin) == from
	}
	last := bits.TrailingZeros16(m.Path)
	return int(m.Path)>>c.rounds == 0 && last < c.rounds && c.ring.ahead(c.rank, last) == from &&
		(c.rank+int(m.Path))%c.tree.n == origin
}

// wayBack returns the rank that a reply goes to next, unless it is for this rank. It reports
// false for a reply that cannot come this way.
func (c *Core) wayBack(m Message) (next int, ok bool) {
	origin, from := int(m.Origin), int(m.From)
	switch {
	case origin >= c.tree.n:
		return 0, false
	case c.rounds == 0:
		next = c.tree.towards(c.rank, origin)
		return next, m.Path == 0 && (origin == c.rank || next != from)
	case m.Path == 0:
		_, ok = c.ring.round(from, c.rank)
		return 0, ok && origin == c.rank
	}
	step := bits.TrailingZeros16(m.Path)
	round, ok := c.ring.round(from, c.rank)
	return c.ring.ahead(c.rank, step), ok && round < step && int(m.Path)>>c.rounds == 0 &&
		origin != c.rank && (c.rank+int(m.Path))%c.tree.n == origin
}
