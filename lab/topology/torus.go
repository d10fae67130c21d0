package topology

import (
	"fmt"
	"slices"
)

// torus is a grid of one-way rings, its rows and columns. Routing is dimensional: along the row to the column of the
// destination, then along the column.
type torus struct {
	rows, columns int
	linkFlows     int // that a segment of a ring carries at the same time
}

// Figures that L1-farm measured (§5.1.4, tables 5.2 and 5.3) and derived (§5.1.4 and §5.3).
const (
	latencyNeighbours = 1.40  // µs from bus to bus, next neighbours
	latencyTurn       = 0.57  // µs more if a packet changes from the row to the column
	latencyBypass     = 0.06  // µs for each node passed by
	latencyWait       = 0.216 // µs more for each node passed by that sends a packet of 128 B itself

	ringletIdle = 107 // nodes of a ringlet with 7 send buffers at 1.11 MHz, if the nodes passed by are idle …
	ringletBusy = 22  // … and if each of them sends. From the document, which rounds later.
)

func (n *torus) kind() string      { return "torus" }
func (n *torus) grid() (int, int)  { return n.rows, n.columns }
func (n *torus) capacity() int     { return n.linkFlows }
func (n *torus) linkLabel() string { return fmt.Sprintf("a segment made for %d", n.linkFlows) }

func (n *torus) describe() string {
	return fmt.Sprintf("torus of %d rows and %d columns, %s on a segment; first along the row, then along the column",
		n.rows, n.columns, count(n.linkFlows, "flow"))
}

func (n *torus) axisNames() (string, string, [2]string) {
	return "row", "column", [2]string{"onward along the row", "onward along the column"}
}

// Links of the grid: the segment behind a node, along its row or its column.
const rowLink, columnLink = 0, 1

func (n *torus) route(links []int, from, to Node) []int {
	for c := from.Column; c != to.Column; c = (c + 1) % n.columns {
		links = append(links, linkIndex(n.columns, from.Row, c, rowLink))
	}
	for r := from.Row; r != to.Row; r = (r + 1) % n.rows {
		links = append(links, linkIndex(n.columns, r, to.Column, columnLink))
	}
	return links
}

func (n *torus) linkName(l int) string {
	row, column, direction := linkPosition(n.columns, l)
	if direction == rowLink {
		return fmt.Sprintf("row %d, column %d → %d", row, column, (column+1)%n.columns)
	}
	return fmt.Sprintf("column %d, row %d → %d", column, row, (row+1)%n.rows)
}

// groups are columns: the scheduler of TagNet-farm §III.B.2 gives a column one event at a time.
func (n *torus) groups() (string, func(Node) int) {
	return "column", func(x Node) int { return x.Column }
}

// patterns goes row by row, so that neighbours in the order are in different columns: as many senders as there are
// columns never share one. Dummies keep the columns in step if a row has gaps.
func (n *torus) patterns(nodes []Node, members []int) [][]int {
	at := map[[2]int]int{}
	var rows, columns []int
	for _, m := range members {
		at[[2]int{nodes[m].Row, nodes[m].Column}] = m
		rows, columns = append(rows, nodes[m].Row), append(columns, nodes[m].Column)
	}
	var bare, padded []int
	for _, r := range distinct(rows) {
		for _, c := range distinct(columns) {
			m, is := at[[2]int{r, c}]
			if !is {
				m = dummy
			} else {
				bare = append(bare, m)
			}
			padded = append(padded, m)
		}
	}
	return [][]int{bare, padded}
}

func distinct(s []int) []int {
	slices.Sort(s)
	return slices.Compact(s)
}

// Latency is the time of a packet of 128 B, in µs.
type Latency struct {
	Idle float64 `json:"idle_us"` // while the nodes on the way are idle
	Busy float64 `json:"busy_us"` // while each node on the way sends, too
}

func latency(turns bool, bypassed int) Latency {
	l := latencyNeighbours + latencyBypass*float64(bypassed)
	if turns {
		l += latencyTurn
	}
	return Latency{Idle: l, Busy: l + latencyWait*float64(bypassed)}
}

// longest is the formula of L1-farm §5.1.4 for the longest path in a torus: 1.40 µs + 570 ns + (m + n - 4) × 60 ns.
func (n *torus) longest() Latency { return latency(true, max(n.rows+n.columns-4, 0)) }

// worst is the longest latency between units in use.
func (n *torus) worst(t *Topology) Latency {
	var out Latency
	for _, from := range t.GivenOrder.RUs {
		for _, to := range t.GivenOrder.BUs {
			if from == dummy || to == dummy || from == to {
				continue
			}
			a, b := t.Nodes[from], t.Nodes[to]
			row, column := (b.Column-a.Column+n.columns)%n.columns, (b.Row-a.Row+n.rows)%n.rows
			l := latency(row > 0 && column > 0, max(row-1, 0)+max(column-1, 0))
			out = Latency{Idle: max(out.Idle, l.Idle), Busy: max(out.Busy, l.Busy)}
		}
	}
	return out
}

// plan is the part of a plan that only a torus has.
func (n *torus) plan(t *Topology) *TorusPlan {
	var rows, columns []int
	for i := range t.GivenOrder.RUs {
		if ru := t.GivenOrder.RUs[i]; ru != dummy {
			rows = append(rows, t.Nodes[ru].Row)
		}
		if bu := t.GivenOrder.BUs[i]; bu != dummy {
			columns = append(columns, t.Nodes[bu].Column)
		}
	}
	return &TorusPlan{
		SendingRows:      len(distinct(rows)),
		BuildingColumns:  len(distinct(columns)),
		LongestLatency:   n.longest(),
		WorstUsedLatency: n.worst(t),
		RowRinglet:       n.columns,
		ColRinglet:       n.rows,
		RingletIdle:      ringletIdle,
		RingletBusy:      ringletBusy,
	}
}

// notes compares the map with the document's rules of size.
func (n *torus) notes(t *Topology) []string {
	p := n.plan(t)
	var out []string
	if p.SendingRows > p.BuildingColumns {
		out = append(out, fmt.Sprintf(
			"%d rows send into %d columns: a column's ring would have to carry more than a row's (rows ≤ columns)",
			p.SendingRows, p.BuildingColumns))
	}
	for of, nodes := range map[string]int{"row": p.RowRinglet, "column": p.ColRinglet} {
		if nodes > ringletIdle {
			out = append(out, fmt.Sprintf("a %s is a ringlet of %d nodes: beyond %d, echoes come too late at 1.11 MHz", of,
				nodes, ringletIdle))
		} else if nodes > ringletBusy {
			out = append(out, fmt.Sprintf(
				"a %s is a ringlet of %d nodes: beyond %d, echoes come too late at 1.11 MHz where each node sends itself", of,
				nodes, ringletBusy))
		}
	}
	slices.Sort(out)
	return out
}
