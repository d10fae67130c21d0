package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ringlet/node/cluster"
)

// Options say what a plan shows.
type Options struct {
	MaxConflicts int // conflicts that are described; 0 = all
	MatrixPhase  int // whose links the matrix shows; below 0 = the first that has a conflict
}

// A Plan is what is to be said about a topology. It is the JSON of ringlet plan --json.
type Plan struct {
	File          string       `json:"file"`
	Kind          string       `json:"kind"`
	Network       string       `json:"network"` // in a sentence
	Nodes         int          `json:"nodes"`
	RUs           int          `json:"rus"`
	BUs           int          `json:"bus"`
	Folded        bool         `json:"folded"`
	Notes         []string     `json:"notes"` // what the map cannot do, or does at the limit, whatever the order
	GivenOrder    JudgedOrder  `json:"given"`
	Matrix        *Matrix      `json:"matrix,omitempty"`
	ProposedOrder *JudgedOrder `json:"proposed,omitempty"` // absent where no order was found
	Groups        Groups       `json:"groups"`
	Torus         *TorusPlan   `json:"torus,omitempty"`
}

// JudgedOrder is an order and what it does.
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
	Seats           string     `json:"seats,omitempty"` // by rank, for ringlet run --seats: "0,1,-,2"; where nodes are folded
}

// DummyRun says where dummies stand: behind the node at Place.
type DummyRun struct {
	Place   int    `json:"place"`
	Node    string `json:"node"`
	Dummies int    `json:"dummies"`
}

// Groups are builder units that share what carries one event at a time, for the scheduler's rules.
type Groups struct {
	SharedBy string     `json:"of"` // leaf or column
	BUs      [][]string `json:"bus"`
	Flag     string     `json:"flag"` // the same by index among the builder units, which go by rank: "0-3;4-7"
}

// TorusPlan is what only a torus has.
type TorusPlan struct {
	SendingRows      int     `json:"sending_rows"`
	BuildingColumns  int     `json:"building_columns"`
	LongestLatency   Latency `json:"latency"` // of the longest way there is
	WorstUsedLatency Latency `json:"worst"`   // of the longest way that is used
	RowRinglet       int     `json:"row_ringlet"`
	ColRinglet       int     `json:"column_ringlet"`
	RingletIdle      int     `json:"ringlet_limit_idle"`
	RingletBusy      int     `json:"ringlet_limit_busy"`
}

// NewPlan checks the given order and proposes one. file is its name.
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

// dummiesAfter lists runs of dummies by the node before them; those at the beginning belong to the last.
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

// nodesByRank lists nodes by rank: a run ranks its nodes by name, and its builder units alike.
func (t *Topology) nodesByRank() []int {
	nodes := make([]int, len(t.Nodes))
	for i := range nodes {
		nodes[i] = i
	}
	slices.SortFunc(nodes, func(a, b int) int { return cluster.CompareNames(t.Nodes[a].Name, t.Nodes[b].Name) })
	return nodes
}

// seats names the places of an order as a run's setting does. Where readout and builder units are apart a run has no
// such setting: they sit in the order of their ranks.
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

// groups sorts the builder units by what they share.
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

// ranges writes 0,1,2,5 as 0-2,5.
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

// A Matrix is what the links carry in one phase, in the grid of the network: two links to a cell.
type Matrix struct {
	Phase    int        `json:"phase"`
	Capacity int        `json:"capacity"` // flows a link is made for
	Links    [2]string  `json:"links"`    // what the first and the second link of a cell are
	Rows     string     `json:"rows"`     // what a row is, and a column
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
