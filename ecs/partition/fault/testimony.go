package fault

import (
	"fmt"
	"time"
)

// drowsy is how long after a node stood still its word on its links may come of that: its own end of a link runs out
// within 5 s, as the other end has.
const drowsy = 10 * time.Second

// admit is the one place where testimony is let in: it says what a sight counts for, and whether it counts at all.
//
//	who speaks of another                         counts
//	lost to the run, leaves it, or has left it    for nothing: its links ended for that
//	and had just given up for bad data            as it is: others may have told of its links before
//	stood still, and the other did not            against itself: the link between them broke for that
//	stood still, and gives the run up             likewise, where the run goes on without it
//	anybody else                                  as it is
func (c *Core) admit(x Sight) (counts Sight, ok bool) {
	n, by := c.node(x.Component), c.nodes[x.By]
	switch {
	case by == nil:
	case by == n: // of itself a lost node may still tell why, but not what followed while it stood still
		if n.lost && c.stoodStill(n) {
			return x, false
		}
	case by.lost && c.lastWord(by, x):
	case by.left, by.stage == leaving, by.lost:
		return x, false
	case c.running && !c.silenced && x.Part != PartData && c.stoodStill(by):
		own := c.turned(x, by)
		if c.steady(n) || x.Kind == Blamed && c.bears(by, own) {
			return own, true
		}
	}
	return x, !c.departs(n, x)
}

// lastWord says that a node gave the run up for data that do not fit, and is lost for no other reason than that: others
// missed its links before its word was heard.
func (c *Core) lastWord(by *node, x Sight) bool {
	return x.Part == PartData && x.Kind == Blamed && !by.ended && !c.stoodStill(by) &&
		c.awake.now().Sub(by.since) < settlePeer
}

// departs says that what looks like a fault of a node is its end in good order: it was told to end. Links and the
// stream of a node that leaves may close before its final report is seen; it itself and who watches it tell where it
// fails before that.
func (c *Core) departs(n *node, x Sight) bool {
	switch {
	case !c.running || c.silenced:
		return false
	case n.left:
		return true
	case n.stage != leaving:
		return false
	}
	return x.Kind == Cut || x.Kind == Blamed || n.final
}

// stoodStill says that a node told nothing for a while, not long ago, while the control listened.
func (c *Core) stoodStill(n *node) bool {
	return !n.woke.IsZero() && c.awake.now().Sub(n.woke) < drowsy
}

// steady says that a node has told all the time how it is.
func (c *Core) steady(n *node) bool {
	return !n.heard.IsZero() && c.awake.now().Sub(n.heard) < quiet && !c.stoodStill(n)
}

// turned is the word of a node that stood still, against itself.
func (c *Core) turned(x Sight, by *node) Sight {
	return Sight{Kind: Cut, Fault: Fault{
		Component: x.By,
		Part:      PartTransport,
		What: fmt.Sprintf("it told nothing for %v and misses %s since: it stood still or was cut off%s",
			by.silent.Round(100*time.Millisecond), x.Component, c.where(x.By)),
		Evidence: Seen("", "", "").Evidence,
		At:       x.At,
	}}
}
