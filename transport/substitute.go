package transport

import (
	"cmp"
	"sync/atomic"
)

// SetSubstitute has the endpoint await another node in the place of a peer that is lost, and not the peer itself any
// more. name is that of its certificate; empty means the peer itself.
func (e *Endpoint) SetSubstitute(rank int, name string) { e.certNames.substitutes[rank].Store(&name) }

// certNames are the names in the certificates of the processes of a view.
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

// rankOf is the rank of the process with a certificate, or -1.
func (c *certNames) rankOf(name string) int {
	for rank := range c.members {
		if c.nameOf(rank) == name {
			return rank
		}
	}
	return -1
}
