package topology

import (
	"fmt"
	"slices"
	"strings"
)

// A Flow is what one node sends to another during a phase.
type Flow struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// A Conflict is a link that carries more flows in a phase than its capacity.
type Conflict struct {
	Phase     int    `json:"phase"`
	Link      string `json:"link"`
	Flows     []Flow `json:"flows"`
	linkLabel string
}

func (c Conflict) String() string {
	flows := make([]string, len(c.Flows))
	for i, f := range c.Flows {
		flows[i] = f.From + " → " + f.To
	}
	last := len(flows) - 1
	return fmt.Sprintf("phase %d: %s carries %d flows over %s: %s and %s", c.Phase, c.Link, len(flows), c.linkLabel,
		strings.Join(flows[:last], ", "), flows[last])
}

// A judgement counts the conflicts of an order.
type judgement struct {
	Conflicts int        // pairs of phase and link
	Phases    int        // phases with conflicts
	MaxFlows  int        // largest number of flows on a link in a phase
	First     int        // first phase with a conflict, if there is one
	Described []Conflict // the first ones, in the order of phases
}

// conflictFree says whether no link conflicts in any phase.
func (c judgement) conflictFree() bool { return c.Conflicts == 0 }

// check counts the flows of every link in every phase. It describes the first show conflicts, or all if show is 0.
func (t *Topology) check(o Order, show int) judgement {
	var c judgement
	l := t.newLoad()
	for p := range o.places() {
		t.countPhase(l, o, p)
		over := l.overloaded()
		if len(over) > 0 {
			if c.Phases++; c.Phases == 1 {
				c.First = p
			}
		}
		c.Conflicts += len(over)
		c.MaxFlows = max(c.MaxFlows, l.most())
		for _, link := range over {
			if show == 0 || len(c.Described) < show {
				c.Described = append(c.Described, t.conflict(o, p, link))
			}
		}
	}
	return c
}

// conflictFree is check that ends at the first conflict. It also returns how many flows it looked at, which is its
// cost. It begins at the phase where the last order failed: an order that differs by one dummy mostly fails there
// again.
func (t *Topology) conflictFree(l *phaseLoad, o Order) (ok bool, flows int) {
	for i := range o.places() {
		p := (l.failedPhase + i) % o.places()
		t.countPhase(l, o, p)
		flows += len(o.RUs)
		if l.most() > l.linkCapacity {
			l.failedPhase = p
			return false, flows
		}
	}
	return true, flows
}

// phaseLoad counts the flows of one phase.
type phaseLoad struct {
	flows        []int // by link
	used         []int // links with flows
	path         []int // scratch
	failedPhase  int   // phase in which an order had a conflict
	linkCapacity int
}

func (t *Topology) newLoad() *phaseLoad {
	rows, columns := t.net.grid()
	return &phaseLoad{flows: make([]int, rows*columns*2), linkCapacity: t.net.capacity()}
}

// countPhase counts phase p, and forgets the phase counted before.
func (t *Topology) countPhase(l *phaseLoad, o Order, p int) {
	for _, link := range l.used {
		l.flows[link] = 0
	}
	l.used = l.used[:0]
	for i := range o.RUs {
		from, to := o.flow(i, p)
		if from == dummy || to == dummy || from == to {
			continue // a node's own part uses no link
		}
		l.path = t.net.route(l.path[:0], t.Nodes[from], t.Nodes[to])
		for _, link := range l.path {
			if l.flows[link]++; l.flows[link] == 1 {
				l.used = append(l.used, link)
			}
		}
	}
}

// flow is the sender and receiver of the linear shift in a phase.
func (o Order) flow(i, phase int) (from, to int) { return o.RUs[i], o.BUs[(i+phase)%len(o.BUs)] }

// overloaded lists the links in conflict.
func (l *phaseLoad) overloaded() []int {
	var out []int
	for _, link := range l.used {
		if l.flows[link] > l.linkCapacity {
			out = append(out, link)
		}
	}
	slices.Sort(out)
	return out
}

func (l *phaseLoad) most() int {
	most := 0
	for _, link := range l.used {
		most = max(most, l.flows[link])
	}
	return most
}

// conflict lists the flows that meet on a link.
func (t *Topology) conflict(o Order, phase, link int) Conflict {
	c := Conflict{Phase: phase, Link: t.net.linkName(link), linkLabel: t.net.linkLabel()}
	for i := range o.RUs {
		from, to := o.flow(i, phase)
		if from == dummy || to == dummy || from == to {
			continue
		}
		if slices.Contains(t.net.route(nil, t.Nodes[from], t.Nodes[to]), link) {
			c.Flows = append(c.Flows, Flow{From: t.Nodes[from].Name, To: t.Nodes[to].Name})
		}
	}
	return c
}
