package transport

import (
	"cmp"
	"sync/atomic"

	"ringlet/internal/nodename"
)

// SetSubstitute has the endpoint await another node in the place of a peer that is lost, and not the peer itself any
// more. name is that of the other node; empty means the peer itself.
func (e *Endpoint) SetSubstitute(rank int, name string) { e.certNames.substitutes[rank].Store(&name) }

// certNames are the names of the nodes that have the ranks of a view now. A node proves its name by the certificate of
// its process, and says which node of the process it is.
type certNames struct {
	members     []Member
	substitutes []atomic.Pointer[string] // by rank: see SetSubstitute; nil: as in the view
}

// nameOf is the name for a rank.
func (c *certNames) nameOf(rank int) string {
	m := c.members[rank]
	if now := c.substitutes[rank].Load(); now != nil {
		m.Substitute = *now
	}
	return cmp.Or(m.Substitute, m.Name)
}

// placeOf is the place in its process of the node that has a rank.
func (c *certNames) placeOf(rank int) uint8 {
	_, place := nodename.Split(c.nameOf(rank))
	return uint8(place)
}

// rankOf is the rank of the node of that name, or -1.
func (c *certNames) rankOf(name string) int {
	for rank := range c.members {
		if c.nameOf(rank) == name {
			return rank
		}
	}
	return -1
}
