package topology

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText prints the plan.
func (p *Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	units := "folded"
	if !p.Folded {
		units = fmt.Sprintf("%s and %s", count(p.RUs, "readout unit"), count(p.BUs, "builder unit"))
	}
	say("%s: %s", p.File, p.Network)
	say("%s, %s", count(p.Nodes, "node"), units)
	if t := p.Torus; t != nil {
		say("%s send into %s (rows ≤ columns: %s); ringlets of %d and %d nodes, at most %d, or %d where every node sends",
			count(t.SendingRows, "row"), count(t.BuildingColumns,
				"column"), yesNo(t.SendingRows <= t.BuildingColumns), t.RowRinglet, t.ColRinglet,
			t.RingletIdle, t.RingletBusy)
		say("latency of 128 B: at most %.2f µs, %.2f µs where every node on the way sends; longest way used: %.2f µs, "+
			"%.2f µs",
			t.LongestLatency.Idle, t.LongestLatency.Busy, t.WorstUsedLatency.Idle, t.WorstUsedLatency.Busy)
	}
	for _, n := range p.Notes {
		say("note: %s", n)
	}
	say("")
	p.writeGiven(say)
	if p.Matrix != nil {
		b.WriteString(p.Matrix.text())
	}
	p.writeProposed(say)
	if flag := p.Groups.Flag; len(flag) <= maxLineLen {
		say("groups: %s by %s: %s", count(len(p.Groups.BUs), "group"), p.Groups.SharedBy, flag)
	} else {
		say("groups: %s by %s: see the JSON", count(len(p.Groups.BUs), "group"), p.Groups.SharedBy)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Plan) writeGiven(say func(string, ...any)) {
	g := p.GivenOrder
	if g.Conflicts == 0 {
		say("as given: %s: no link conflicts in any phase; %s at most on a link", g.summary(), count(g.MaxFlows, "flow"))
		return
	}
	say("as given: %s: %s in %d of %d phases", g.summary(), count(g.Conflicts, "conflict"), g.Phases, g.Places)
	for _, c := range g.ShownConflicts {
		say("  %s", c)
	}
	if more := g.Conflicts - len(g.ShownConflicts); more > 0 {
		say("  and %d more", more)
	}
}

func (p *Plan) writeProposed(say func(string, ...any)) {
	j := p.ProposedOrder
	switch {
	case j == nil:
		say("proposed: nothing: every order that was tried has conflicts")
		return
	case j.AsGiven:
		say("proposed: as given")
	default:
		say("proposed: %s: no link conflicts in any phase", j.summary())
		if order := strings.Join(p.order(), ", "); len(order) <= maxLineLen {
			say("  %s", order)
		}
		if j.Dummies > 0 {
			say("  dummies: %s", j.dummies())
			if j.EachDummyNeeded {
				say("  each is needed: without any one of them there is a conflict")
			}
		}
	}
	switch {
	case j.Seats == "":
	case len(j.Seats) <= maxLineLen:
		say("  seats of a run: %s", j.Seats)
	default:
		say("  seats of a run: as --seats prints them")
	}
}

// summary is "14 places, 2 dummies (at most 85.7 % of the ports' rate)".
func (j *JudgedOrder) summary() string {
	if j.Dummies == 0 {
		return count(j.Places, "place") + ", no dummies"
	}
	dummies := "1 dummy"
	if j.Dummies > 1 {
		dummies = fmt.Sprintf("%d dummies", j.Dummies)
	}
	return fmt.Sprintf("%s, %s (at most %.1f %% of the ports' rate)", count(j.Places, "place"), dummies, 100*j.RateFactor)
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// maxLineLen bounds a line, in bytes.
const maxLineLen = 160

// maxListed bounds the items of a list in a sentence.
const maxListed = 8

// dummies is "behind n3, behind n7 (2)".
func (j *JudgedOrder) dummies() string {
	var out []string
	for i, a := range j.DummiesAfter {
		if i == maxListed {
			out = append(out, fmt.Sprintf("and at %d more places", len(j.DummiesAfter)-maxListed))
			break
		}
		s := "behind " + a.Node
		if a.Dummies > 1 {
			s += fmt.Sprintf(" (%d)", a.Dummies)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// maxMatrixWidth bounds a printed matrix; a larger one is only in the JSON.
const maxMatrixWidth = 40

// text draws a matrix; of a large one only the rows and columns in conflict.
func (m *Matrix) text() string {
	rows, columns := m.shown()
	var b strings.Builder
	fmt.Fprintf(&b, "  phase %d, flows %s; a link is made for %d, ! is more\n", m.Phase, strings.Join(m.Links[:], " / "),
		m.Capacity)
	if len(rows) > maxMatrixWidth || len(columns) > maxMatrixWidth {
		fmt.Fprintf(&b, "  (%d × %d is too much to draw: see the JSON)\n", len(rows), len(columns))
		return b.String()
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "  %s\t", m.Columns)
	for _, c := range columns {
		fmt.Fprintf(t, "%d\t", c)
	}
	for _, r := range rows {
		fmt.Fprintf(t, "\n  %s %d\t", m.Rows, r)
		for _, c := range columns {
			f := m.Flows[r][c]
			fmt.Fprintf(t, "%s/%s\t", m.cell(f[0]), m.cell(f[1]))
		}
	}
	fmt.Fprintln(t)
	_ = t.Flush() // into memory
	return b.String()
}

func (m *Matrix) cell(flows int) string {
	switch {
	case flows == 0:
		return "·"
	case flows > m.Capacity:
		return fmt.Sprintf("%d!", flows)
	}
	return fmt.Sprint(flows)
}

// shown lists the rows and columns to draw: all, or those with a conflict if there are too many.
func (m *Matrix) shown() (rows, columns []int) {
	all := len(m.Flows) <= maxMatrixWidth && len(m.Flows[0]) <= maxMatrixWidth
	row, column := map[int]bool{}, map[int]bool{}
	for r := range m.Flows {
		for c, f := range m.Flows[r] {
			if all || max(f[0], f[1]) > m.Capacity {
				row[r], column[c] = true, true
			}
		}
	}
	for r := range m.Flows {
		if row[r] {
			rows = append(rows, r)
		}
	}
	for c := range m.Flows[0] {
		if column[c] {
			columns = append(columns, c)
		}
	}
	return rows, columns
}

// WriteOrder prints the proposed order, a name on each line, "~" for a dummy; if nodes are not folded, a readout unit
// and a builder unit on each line.
func (p *Plan) WriteOrder(w io.Writer) error {
	_, err := fmt.Fprintln(w, strings.Join(p.order(), "\n"))
	return err
}

// order lists the places of the proposed order.
func (p *Plan) order() []string {
	if p.ProposedOrder == nil {
		return nil
	}
	name := func(s *string) string {
		if s == nil {
			return emptyPlace
		}
		return *s
	}
	out := make([]string, p.ProposedOrder.Places)
	for i, bu := range p.ProposedOrder.BUs {
		if out[i] = name(bu); !p.Folded {
			out[i] = name(p.ProposedOrder.RUs[i]) + " " + name(bu)
		}
	}
	return out
}
