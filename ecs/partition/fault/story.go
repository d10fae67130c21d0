package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How long closer witnesses are waited for after the first sight, by what is known so far: nodes tell of their state at
// once, a parent sees its child's end within milliseconds, a busy machine takes its time.
const (
	settle     = 300 * time.Millisecond
	settlePeer = 5 * time.Second // a node blames another, which may be as sound: its own word is worth waiting for

	// SettleLong is for a conversation that broke: what it was, its ends will tell.
	SettleLong = 2 * time.Second
)

// Sure says whether what is known after so long is the cause, or nobody closer to it will speak any more.
func (c *Core) Sure(waited time.Duration) bool {
	closest := Blamed
	for _, x := range c.seen {
		closest = min(closest, x.Kind)
	}
	switch {
	case len(c.seen) == 0 || waited >= settlePeer:
		return true
	case closest <= Own:
		return waited >= settle
	}
	return waited >= SettleLong && closest != Blamed
}

// quiet is how long a node must not have been heard to be taken for one that stands still or cannot be reached: its
// reports come every half second, and the control hears of a connection that broke much later.
const quiet = 2 * time.Second

// Cause is what broke, as far as is known now: the root, what followed from it, and what to do. It is nil if nothing
// has broken.
func (c *Core) Cause(now time.Time) *Fault {
	if len(c.seen) == 0 {
		return nil
	}
	f, roots := c.root(c.awake.tick(now))
	for _, name := range c.names {
		sight := func(x Sight) bool { return x.Component == name || x.By == name }
		if !slices.Contains(roots, name) && slices.ContainsFunc(c.seen, sight) {
			f.Followed = append(f.Followed, name)
		}
	}
	return f
}

// Losses are what the run goes on without, one fault of each node, as the closest to its cause told it.
func (c *Core) Losses() (all []Fault) { return c.lossesIn(c.losses) }

func (c *Core) lossesIn(losses []Sight) (all []Fault) {
	for _, name := range c.names {
		var best *Sight
		for i := range losses {
			if x := &losses[i]; x.Component == name && (best == nil || x.closer(best)) {
				best = x
			}
		}
		if best == nil || best.Kind == Cut && c.spoke(name) {
			continue
		}
		f := c.told(*best)
		if best.Kind == Cut && best.By != "" {
			f.What = "it stands still or cannot be reached: " + list(witnesses(losses, name)) +
				" can send it nothing any more" + c.where(name)
		}
		all = append(all, f)
	}
	return all
}

// FirstLoss is the first loss that the policy bore, of a node that is back perhaps; nil if there was none.
func (c *Core) FirstLoss() *Fault {
	ever := append(slices.Clone(c.mended), c.losses...)
	for _, f := range c.lossesIn(ever) {
		if f.Component == ever[0].Component {
			f.At = ever[0].At
			return &f
		}
	}
	return nil
}

// told is a sight as a fault: with where the component runs and what to do.
func (c *Core) told(x Sight) Fault {
	f := x.Fault
	if x.Kind.over() || x.Kind == Missing {
		f.What += c.where(x.Component)
	}
	f.Advice = c.advice(x)
	return f
}

// Judge is the cause among sights of their own, beside what was seen otherwise; nil if there are none.
func (c *Core) Judge(sights []Sight, now time.Time) *Fault {
	alone := *c
	alone.seen = nil
	for _, x := range sights {
		if x, counts := c.admit(x); counts {
			alone.seen = append(alone.seen, x)
		}
	}
	return alone.Cause(now)
}

// where is a clause on where a node runs; empty if nobody knows.
func (c *Core) where(name string) string {
	n := c.nodes[name]
	switch {
	case n == nil || n.host == "" && n.process == "":
		return ""
	case n.host == "":
		return ", process " + n.process
	case n.process == "":
		return ", on " + n.host
	}
	return ", process " + n.process + " on " + n.host
}

// root finds the cause, and the components that it names.
func (c *Core) root(now time.Time) (*Fault, []string) {
	var first *Sight
	for i := range c.seen {
		if x := &c.seen[i]; x.Kind <= Own && (first == nil || x.closer(first)) {
			first = x
		}
	}
	if first == nil {
		return c.dead(now)
	}
	f, roots := c.told(*first), []string{first.Component}
	if !first.Kind.over() {
		return &f, roots
	}
	ends := []string{first.Component + ": " + f.What}
	for _, x := range c.seen {
		if x.Kind.over() && !slices.Contains(roots, x.Component) {
			roots = append(roots, x.Component)
			ends = append(ends, x.Component+": "+c.told(x).What)
		}
	}
	if len(roots) > 1 {
		f.Component = strings.Join(roots, ", ")
		f.What = "their processes have ended; " + strings.Join(ends, "; ")
		f.Advice = strings.ReplaceAll(f.Advice, "its process", "the processes of "+list(roots))
	}
	return &f, roots
}

// dead finds the cause where no component has told it of itself: something stands still, or is cut off.
func (c *Core) dead(now time.Time) (*Fault, []string) {
	var edges []Sight // of links and conversations that went dead
	for _, x := range c.seen {
		if !x.Closed && (x.Kind == Blamed || !c.spoke(x.Component)) {
			edges = append(edges, x)
		}
	}
	if len(edges) == 0 {
		f := c.told(c.seen[0])
		return &f, []string{f.Component}
	}
	if f := c.abandoned(edges); f != nil {
		return f, []string{f.Component}
	}
	mute := slices.DeleteFunc(slices.Clone(edges), func(x Sight) bool { return c.spoke(x.Component) })
	if len(mute) > 0 {
		return c.missed(mute, now)
	}
	return c.cut(edges)
}

// abandoned is the fault of a scheduler that has lost every node at once: what they have in common is its end.
func (c *Core) abandoned(edges []Sight) *Fault {
	lost := map[string]bool{}
	for _, x := range edges {
		if x.By != "" || x.Kind != Cut || x.Part == PartTransport { // that is of links
			return nil
		}
		lost[x.Component] = true
	}
	if len(lost) < 2 || len(lost) < len(c.names) {
		return nil
	}
	f := edges[0].Fault
	f.Component, f.Part = cmp.Or(c.scheduler, "control"), PartScheduler
	f.Evidence = strings.TrimPrefix(f.What+", "+f.Evidence, ", ")
	f.What = "the scheduler there has lost its conversations with all nodes at once"
	f.Advice = "Look at the network of its host, at its load, and whether certificates have expired."
	return &f
}

// missed finds the cause among components that have told nothing: the one that most miss, unless the control hears it
// and one node alone does not.
func (c *Core) missed(edges []Sight, now time.Time) (*Fault, []string) {
	best, by := edges[0], witnesses(edges, edges[0].Component)
	for _, x := range edges {
		w := witnesses(edges, x.Component)
		if x.Kind < best.Kind && len(w) >= len(by) || len(w) > len(by) {
			best, by = x, w
		}
	}
	name := best.Component
	alone := len(by) == 1 && best.By != "" && best.Part == PartTransport
	switch n := c.node(name); {
	case alone && c.running && !n.heard.IsZero() && now.Sub(n.heard) < quiet:
		return c.between(best)
	case best.Part == PartTransport && c.running && best.By != "":
		f := best.Fault
		if !n.heard.IsZero() && now.Sub(n.heard) >= quiet {
			by = append(by, "the control")
		}
		f.What = "it stands still or cannot be reached: nothing is heard of it any more by " + list(by) + c.where(name)
		f.Evidence = strings.TrimPrefix(best.What+", "+best.Evidence, ", ")
		f.Advice = "Look whether its process and its host live and whether the network to it is whole; " +
			"end a process that stands still, and start it again."
		return &f, []string{name}
	}
	f := c.told(best)
	return &f, []string{name}
}

// cut finds the cause where everybody speaks and blames others: the node that is an end of most dead links, or the
// link.
func (c *Core) cut(edges []Sight) (*Fault, []string) {
	others := map[string][]string{}
	note := func(a, b string) {
		if a != "" && !slices.Contains(others[a], b) {
			others[a] = append(others[a], b)
		}
	}
	for _, x := range edges {
		note(x.By, x.Component)
		note(x.Component, x.By)
	}
	hub, unique := "", false
	for _, name := range c.names {
		switch n := len(others[name]); {
		case hub == "" || n > len(others[hub]):
			hub, unique = name, true
		case n == len(others[hub]):
			unique = false
		}
	}
	if !unique || len(others[hub]) < 2 {
		return c.between(edges[0])
	}
	f := edges[0].Fault
	f.Component = hub
	f.What = "its links to " + list(others[hub]) + " are dead, and the control hears all of them" + c.host(hub)
	f.Advice = "Look at the network of its host: cable, port, addresses, firewall."
	return &f, []string{hub}
}

func (c *Core) host(name string) string {
	if n := c.nodes[name]; n != nil && n.host != "" {
		return ", on " + n.host
	}
	return ""
}

// between is the fault of a link whose two ends the control hears.
func (c *Core) between(x Sight) (*Fault, []string) {
	f, ends := x.Fault, []string{x.By, x.Component}
	slices.Sort(ends)
	f.Component, f.Part = "the link between "+ends[0]+" and "+ends[1], PartTransport
	f.What = "it is dead, and the control hears both ends"
	f.Evidence = strings.TrimPrefix(x.What+", "+x.Evidence, ", ")
	f.Advice = "Look at the network between " + c.at(ends[0]) + " and " + c.at(ends[1]) +
		": cables, ports, a firewall that lets one way through only."
	return &f, nil // both ends gave up for it
}

// at is a node with its host, if that is known.
func (c *Core) at(name string) string {
	if n := c.nodes[name]; n != nil && n.host != "" {
		return name + " on " + n.host
	}
	return name
}

// witnesses are those who miss a component: nodes, the scheduler or the control.
func witnesses(edges []Sight, name string) (by []string) {
	for _, x := range edges {
		who := x.By
		if who == "" {
			who = strings.TrimPrefix(x.Evidence, "seen by ")
		}
		if x.Component == name && !slices.Contains(by, who) {
			by = append(by, who)
		}
	}
	slices.Sort(by)
	return by
}

// list is names for people: n0, n1 and n2.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// Sentence tells a fault to people: who, what, and who followed.
func (f *Fault) Sentence() string {
	s := f.Component + ": " + f.What
	if len(f.Followed) > 0 {
		s += fmt.Sprintf("; %s gave up for that", list(f.Followed))
	}
	return s
}
