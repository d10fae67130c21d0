package fault

import (
	"slices"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node/config"
)

// Core knows what was seen of the nodes of a partition, and which of them a run goes on without.
type Core struct {
	nodes map[string]*node
	names []string // of nodes, in the order in which they became known

	scheduler string      // the node on which it lives; empty: in the control
	reading   config.Loss // of readout units
	loss      config.Loss // of builder units
	own       bool        // the control starts the processes of nodes by itself

	running   bool // a run goes on, which bears losses
	silenced  bool // nodes are being ended on purpose
	listening bool // to what nodes say of themselves: before they are loaded they may still speak of an earlier run
	awake     awake
	seen      []Sight // that nobody bears, each once
	losses    []Sight // that the policy bears, each once
	mended    []Sight // losses of nodes that are back
	ever      bool    // a unit was lost or excluded in the run
}

// node is what is known of one.
type node struct {
	host, process    string        // where it runs; empty: not known
	heard            time.Time     // last, by the control, of the time in which that was awake
	woke             time.Time     // when it was heard again after it had told nothing for long; zero: it always told
	silent           time.Duration // before that
	gone             string        // what was seen first of its end; empty: it is there
	ended            bool          // its process has
	left             bool          // it has left a run in good order
	readout, builder bool          // units that it holds in the view
	decides          bool          // it holds the decision unit
	in               bool          // its builder unit takes MEPs
	lost             bool          // to this run
	since            time.Time     // it is lost, of the time in which the control was awake
	strayed          bool          // it is lost, and was heard to go on
	final            bool          // it has done what it has to in the run
	stage            departure     // how far it is, if it was told to end
	still            stopwatch.StallDetector
}

// decidesAlone says that it holds the decision unit, and no other.
func (n *node) decidesAlone() bool { return n.decides && !n.readout && !n.builder }

// Act is what is to be done.
type Act uint8

// What is to be done.
const (
	Nothing Act = iota
	Strike      // the run ends, or does not begin
	Lose        // its unit is to be taken out of the schedule: the run goes on without it

	Exclude // likewise, of a node that leaves
	Promise // tell it that the run ends
	End     // end the run, and tell it so
	Leave   // nothing: it has left in good order
	GiveUp  // see it as missing: it neither leaves nor moves
)

// New makes a Core; own says that the control starts processes of nodes that have ended by itself.
func New(own bool) *Core { return &Core{nodes: map[string]*node{}, own: own} }

func (c *Core) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{}
		c.nodes[name], c.names = n, append(c.names, name)
	}
	return n
}

// Know notes where a node runs; what is empty leaves what is known.
func (c *Core) Know(name, host, process string) {
	n := c.node(name)
	if host != "" {
		n.host = host
	}
	if process != "" {
		n.process = process
	}
}

// Heard notes that the control has heard a node; final says that it has done what it has to in the run.
func (c *Core) Heard(name string, at time.Time, final bool) {
	n, now := c.node(name), c.awake.tick(at)
	if silent := now.Sub(n.heard); !n.heard.IsZero() && silent >= quiet {
		n.woke, n.silent = now, silent
	}
	n.heard, n.final = now, final
}

// Unit is what a node holds in a view.
type Unit struct {
	Node             string
	Readout, Builder bool
	Decides          bool // the decision unit, whatever else it holds
}

// Take takes the units of a view for a run that is to begin.
func (c *Core) Take(view []Unit, scheduler string, readout, builder config.Loss) {
	c.scheduler, c.reading, c.loss, c.ever, c.running = scheduler, readout, builder, false, false
	c.losses, c.mended = nil, nil
	for _, n := range c.nodes {
		n.readout, n.builder, n.decides, n.in, n.lost, n.stage = false, false, false, false, false, staying
		n.strayed = false
	}
	known := c.names
	c.names = nil // in the order of the view, and then who else is known
	for _, u := range view {
		n := c.nodes[u.Node]
		if n == nil {
			n = &node{}
			c.nodes[u.Node] = n
		}
		c.names = append(c.names, u.Node)
		n.readout, n.builder, n.in = u.Readout, u.Builder, u.Builder
		n.decides = u.Decides
	}
	for _, name := range known {
		if !slices.Contains(c.names, name) {
			c.names = append(c.names, name)
		}
	}
}

// Begin has losses borne from now on: every unit is on its way into the run.
func (c *Core) Begin() {
	c.running = true
	for _, n := range c.nodes {
		n.woke = time.Time{} // nobody had to tell anything before
	}
}

// Listen listens to what nodes say of themselves from now on.
func (c *Core) Listen() { c.listening = true }

// Listening says whether what a node says of itself counts.
func (c *Core) Listening() bool { return c.listening }

// Silence is for the time when nodes are ended on purpose.
func (c *Core) Silence() { c.silenced = true }

// Clear forgets what broke and listens again.
func (c *Core) Clear() { c.seen, c.running, c.silenced = nil, false, false }

// Again is Clear for a further run of the same nodes, where the end of the one before has silenced it.
func (c *Core) Again() {
	if c.silenced {
		c.Clear()
	}
}

// See takes what was seen of a component. It returns what is to be done about it, and the fault for which: a word may
// count against whoever says it.
func (c *Core) See(x Sight) (Act, Fault) {
	n := c.node(x.Component)
	if x.By != "" {
		c.node(x.By)
	}
	n.ended = n.ended || x.Kind.over()
	x, counts := c.admit(x)
	if !counts {
		return Nothing, x.Fault
	}
	return c.judge(c.node(x.Component), x), x.Fault
}

// judge takes what was admitted of a node.
func (c *Core) judge(n *node, x Sight) Act {
	if x.By != "" && x.By != x.Component && x.Kind <= Cut && !c.running {
		return Nothing // outside of a run a link that is down does not matter, nor what came over it
	}
	if c.silenced || !c.running {
		return c.strike(n, x)
	}
	if !c.bears(n, x) || x.Kind == Cut && c.spoke(x.Component) {
		return c.strike(n, x)
	}
	if n.gone == "" {
		n.gone = x.What // it may stand still, so nobody waits for it either
	}
	first := !n.lost
	if first {
		n.since = c.awake.now()
	}
	n.lost, n.in, c.ever = true, false, true
	c.losses = once(c.losses, x)
	if first {
		return Lose
	}
	return Nothing
}

// strike notes what nobody bears.
func (c *Core) strike(n *node, x Sight) Act {
	if (x.Kind.over() || x.Kind == Missing) && n.gone == "" {
		n.gone = x.What
	}
	if c.silenced {
		return Nothing
	}
	first := len(c.seen) == 0
	c.seen = once(c.seen, x)
	if first {
		return Strike
	}
	return Nothing
}

// spoke says that a node has given up and said why: others lose their links to it for that.
func (c *Core) spoke(name string) bool {
	return slices.ContainsFunc(c.seen, func(x Sight) bool { return x.Kind == Blamed && x.By == name })
}

// once appends a sight that is not there yet. Nodes report what they say of themselves again and again.
func once(all []Sight, x Sight) []Sight {
	if slices.ContainsFunc(all, func(y Sight) bool {
		return y.Kind == x.Kind && y.Component == x.Component && y.By == x.By && y.What == x.What
	}) {
		return all
	}
	return append(all, x)
}

// bears says whether the run goes on after a fault. The word of a node that has given up itself ends it: the others
// have lost their links to that node. What is wrong with the configuration is so for every unit.
func (c *Core) bears(n *node, x Sight) bool {
	if x.Kind == Blamed || x.Component == c.scheduler || x.Part == partConfig {
		return false
	}
	switch {
	case n.lost || n.decidesAlone():
		return true
	case n.readout && !n.builder:
		return c.reading.Bears(c.readers() - 1)
	}
	return n.builder && !n.readout && (!n.in || c.loss.Bears(c.takers()-1))
}

// Gone is the first thing that was seen of a node which is gone or in Error; empty if it is neither, or has left in
// good order.
func (c *Core) Gone(name string) string {
	if n := c.nodes[name]; n != nil && !n.left {
		return n.gone
	}
	return ""
}

// Dead says that the process of a node is known to have ended.
func (c *Core) Dead(name string) bool {
	n := c.nodes[name]
	return n != nil && n.ended
}

// Over notes that a node is gone which had done what it has to in the run: nobody waits for it, and nothing has broken.
func (c *Core) Over(name, what string) {
	if n := c.node(name); n.gone == "" {
		n.gone = what
	}
}
