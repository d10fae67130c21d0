package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ringlet/node/cluster"
)

// Options say how much a plan shows.
type Options struct {
	MaxConflicts int // how many conflicts to describe at most; 0 = all
	MatrixPhase  int // phase of the matrix; below 0 = the first with a conflict
}

// A Plan is the analysis of a topology. It is the JSON of ringlet plan --json.
type Plan struct {
	File          string       `json:"file"`
	Kind          string       `json:"kind"`
	Network       string       `json:"network"` // in a sentence
	Nodes         int          `json:"nodes"`
	RUs           int          `json:"rus"`
	BUs           int          `json:"bus"`
	Folded        bool         `json:"folded"`
	Notes         []string     `json:"notes"` // limits of the map, whatever the order
	GivenOrder    JudgedOrder  `json:"given"`
	Matrix        *Matrix      `json:"matrix,omitempty"`
	ProposedOrder *JudgedOrder `json:"proposed,omitempty"` // absent if no order was found
	Groups        Groups       `json:"groups"`
	Torus         *TorusPlan   `json:"torus,omitempty"`
}

// JudgedOrder is an order with its conflicts.
type JudgedOrder struct {
	Places          int        `json:"places"`
	Dummies         int        `json:"dummies"`
	RateFactor      float64    `json:"goodput_factor"`
	Conflicts       int        `json:"conflicts"`
	Phases          int        `json:"conflicting_phases"`
	MaxFlows        int        `json:"most_flows"`
	ShownConflicts  []Conflict `json:"shown"`
	EachDummyNeeded bool       `json:"each_dummy_needed"` // of a proposal: leaving out any one brings a conflict
	AsGiven         bool       `json:"as_given"`          // of a proposal: it is the given order
	RUs             []*string  `json:"rus"`               // by place; null is a dummy
	BUs             []*string  `json:"bus"`
	DummiesAfter    []DummyRun `json:"dummies_after"`   // of builder units
	Seats           string     `json:"seats,omitempty"` // by rank, for run --seats: "0,1,-,2"; only if nodes are folded
}

// DummyRun is a run of dummies behind the node at Place.
type DummyRun struct {
	Place   int    `json:"place"`
	Node    string `json:"node"`
	Dummies int    `json:"dummies"`
}

// Groups are the groups of builder units for the scheduler's rules. Units of a group share a bottleneck, and the
// scheduler sends events to one of them at a time.
type Groups struct {
	SharedBy string     `json:"of"` // leaf or column
	BUs      [][]string `json:"bus"`
	Flag     string     `json:"flag"` // the same by index among the builder units, which are ordered by rank: "0-3;4-7"
}

// TorusPlan is the part of a plan that only a torus has.
type TorusPlan struct {
	SendingRows      int     `json:"sending_rows"`
	BuildingColumns  int     `json:"building_columns"`
	LongestLatency   Latency `json:"latency"` // of the longest path
	WorstUsedLatency Latency `json:"worst"`   // of the longest path in use
	RowRinglet       int     `json:"row_ringlet"`
	ColRinglet       int     `json:"column_ringlet"`
	RingletIdle      int     `json:"ringlet_limit_idle"`
	RingletBusy      int     `json:"ringlet_limit_busy"`
}

// NewPlan checks the given order and proposes one. file is the name of the topology file.
func (t *Topology) NewPlan(file string, opt Options) (*Plan, error) {
	if opt.MatrixPhase >= t.GivenOrder.places() {
		return nil, &emptySystemError{fmt.Sprintf("phase %d is asked for, and the last of %d phases is %d", opt.MatrixPhase,
			t.GivenOrder.places(), t.GivenOrder.places()-1)}
	}
	check := t.check(t.GivenOrder, opt.MaxConflicts)
	p := &Plan{
		File:       file,
		Kind:       t.net.kind(),
		Network:    t.net.describe(),
		Nodes:      len(t.Nodes),
		Folded:     t.Folded,
		RUs:        countUnits(t.GivenOrder.RUs),
		BUs:        countUnits(t.GivenOrder.BUs),
		Notes:      append([]string{}, t.net.notes(t)...),
		GivenOrder: t.judged(t.GivenOrder, check),
	}
	if opt.MatrixPhase < 0 && !check.conflictFree() {
		opt.MatrixPhase = check.First
	}
	if opt.MatrixPhase >= 0 {
		p.Matrix = t.matrix(t.GivenOrder, opt.MatrixPhase)
	}
	if best, found := t.propose(); found {
		j := t.judged(best.Order, best.Check)
		j.EachDummyNeeded = best.EachDummyNeeded
		j.AsGiven = slices.Equal(best.Order.BUs, t.GivenOrder.BUs) && slices.Equal(best.Order.RUs, t.GivenOrder.RUs)
		p.ProposedOrder = &j
	}
	p.Groups = t.groups()
	if n, is := t.net.(*torus); is {
		p.Torus = n.plan(t)
	}
	return p, nil
}

func (t *Topology) judged(o Order, c judgement) JudgedOrder {
	return JudgedOrder{
		Places:         o.places(),
		Dummies:        o.dummies(),
		RateFactor:     o.factor(),
		Conflicts:      c.Conflicts,
		Phases:         c.Phases,
		MaxFlows:       c.MaxFlows,
		ShownConflicts: append([]Conflict{}, c.Described...),
		RUs:            t.names(o.RUs),
		BUs:            t.names(o.BUs),
		DummiesAfter:   t.dummiesAfter(o.BUs),
		Seats:          t.seats(o),
	}
}

func (t *Topology) names(places []int) []*string {
	out := make([]*string, len(places))
	for i, node := range places {
		if node != dummy {
			out[i] = &t.Nodes[node].Name
		}
	}
	return out
}

// dummiesAfter lists runs of dummies by the node before them; those at the beginning come after the last node.
func (t *Topology) dummiesAfter(places []int) []DummyRun {
	out := []DummyRun{}
	last := len(places) - 1
	for last > 0 && places[last] == dummy {
		last--
	}
	for i, node := range places {
		switch {
		case node != dummy:
			last = i
		case len(out) > 0 && out[len(out)-1].Place == last:
			out[len(out)-1].Dummies++
		default:
			out = append(out, DummyRun{Place: last, Node: t.Nodes[places[last]].Name, Dummies: 1})
		}
	}
	return out
}

// nodesByRank lists nodes by rank: a run ranks its nodes, and its builder units, by name.
func (t *Topology) nodesByRank() []int {
	nodes := make([]int, len(t.Nodes))
	for i := range nodes {
		nodes[i] = i
	}
	slices.SortFunc(nodes, func(a, b int) int { return cluster.CompareNames(t.Nodes[a].Name, t.Nodes[b].Name) })
	return nodes
}

// seats is the order as the setting --seats. A run whose readout and builder units are apart has no such setting: units
// sit in the order of their ranks.
func (t *Topology) seats(o Order) string {
	if !t.Folded {
		return ""
	}
	rank := make([]int, len(t.Nodes))
	for r, node := range t.nodesByRank() {
		rank[node] = r
	}
	out := make([]string, o.places())
	for i, node := range o.BUs {
		if out[i] = "-"; node != dummy {
			out[i] = strconv.Itoa(rank[node])
		}
	}
	return strings.Join(out, ",")
}

// groups groups the builder units by their bottleneck.
func (t *Topology) groups() Groups {
	of, in := t.net.groups()
	builds := map[int]bool{}
	for _, node := range t.GivenOrder.BUs {
		builds[node] = true
	}
	names, indices := map[int][]string{}, map[int][]int{}
	index := 0
	for _, node := range t.nodesByRank() {
		if n := t.Nodes[node]; builds[node] {
			names[in(n)] = append(names[in(n)], n.Name)
			indices[in(n)] = append(indices[in(n)], index)
			index++
		}
	}
	out := Groups{SharedBy: of}
	var flags []string
	for _, g := range slices.Sorted(maps.Keys(names)) {
		out.BUs = append(out.BUs, names[g])
		flags = append(flags, ranges(indices[g]))
	}
	out.Flag = strings.Join(flags, ";")
	return out
}

// ranges formats 0,1,2,5 as 0-2,5.
func ranges(sorted []int) string {
	var b strings.Builder
	for i := 0; i < len(sorted); i++ {
		first := i
		for i+1 < len(sorted) && sorted[i+1] == sorted[i]+1 {
			i++
		}
		if first > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, sorted[first])
		if i > first {
			fmt.Fprintf(&b, "-%d", sorted[i])
		}
	}
	return b.String()
}

// A Matrix has the flows of all links in one phase, in the grid of the network: two links in a cell.
type Matrix struct {
	Phase    int        `json:"phase"`
	Capacity int        `json:"capacity"` // flows that a link can carry
	Links    [2]string  `json:"links"`    // names of the first and the second link of a cell
	Rows     string     `json:"rows"`     // names of a row and of a column
	Columns  string     `json:"columns"`
	Flows    [][][2]int `json:"flows"`
}

func (t *Topology) matrix(o Order, phase int) *Matrix {
	l := t.newLoad()
	t.countPhase(l, o, phase)
	rows, columns := t.net.grid()
	m := &Matrix{Phase: phase, Capacity: l.linkCapacity, Flows: make([][][2]int, rows)}
	m.Rows, m.Columns, m.Links = t.net.axisNames()
	for r := range rows {
		m.Flows[r] = make([][2]int, columns)
		for c := range columns {
			m.Flows[r][c] = [2]int{l.flows[linkIndex(columns, r, c, 0)], l.flows[linkIndex(columns, r, c, 1)]}
		}
	}
	return m
}
