package sweep

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"ringlet/lab/page"
	"ringlet/lab/trial"
)

type failure struct {
	Cell  string
	Round int
	Why   string
}

// reference has the measurements of one reference between the runs.
type reference struct {
	name        string
	gbps        trial.Spread
	first, last time.Time
	fails       []string
}

// pageData has everything that page and table need.
type pageData struct {
	*results
	goodRuns int
	total    int
	failures []failure
	groups   []*group
	table    page.Table
}

func newPageData(r *results) *pageData {
	good, failed := r.splitRuns()
	o := &pageData{
		results:  r,
		goodRuns: len(good),
		total:    len(good) + len(failed),
		groups:   groups(good, failed),
	}
	for _, rec := range failed {
		o.failures = append(o.failures, failure{rec.Cell, rec.Round, rec.Error})
	}
	if n := len(r.Starts); n > 0 {
		o.total = max(o.total, r.Starts[n-1].Rounds*len(r.Starts[n-1].Cells)) // a resumed sweep may ask for fewer rounds
		sortGroups(o.groups, r.Starts[0].Cells)
	}
	o.table = tableOf(o.groups)
	return o
}

// writeHTML writes the report.
func writeHTML(w io.Writer, r *results) error { return pageOf(newPageData(r)).Write(w) }

// pageOf is the page of report.html.
func pageOf(o *pageData) *page.Page {
	p := &page.Page{
		Kind:     "Ringlet sweep",
		Lead:     o.lead(),
		Sections: slices.Concat(o.figureSections(), o.tableSections(), []page.Section{o.referenceSection()}),
	}
	ran := page.Section{ID: "machine", Title: "Machine"}
	for i := range o.Starts {
		ran.Ran = append(ran.Ran, page.Ran{Started: o.Starts[i].Started, Machine: o.Starts[i].Machine})
	}
	p.Sections = append(p.Sections, ran)
	if len(o.Starts) > 0 {
		first := &o.Starts[0]
		p.Name = first.Name
		p.Sections = append(p.Sections, page.Section{
			ID:    "file",
			Title: "The sweep file",
			Note:  first.File + ", SHA-256 " + first.Hash,
			Text:  first.Text,
		})
	}
	return p
}

// figureSections are the figures and the timelines.
func (o *pageData) figureSections() (out []page.Section) {
	drawn := slices.DeleteFunc(slices.Clone(o.groups), func(g *group) bool { return len(g.runs) == 0 })
	for i, s := range sections(drawn) {
		out = append(out, page.Section{
			ID:      fmt.Sprintf("s%d", i),
			Title:   s.title,
			Note:    "Medians of the repetitions; whiskers reach from the least to the most.",
			Figures: s.figures,
		})
	}
	if t := timelines(o.groups); len(t) > 0 {
		out = append(out, page.Section{
			ID:        "phases",
			Title:     "Phases",
			Note:      aboutPhases,
			Timelines: t,
		})
	}
	return out
}

// tableSections are the table, the verdicts on bounds, and the failed runs.
func (o *pageData) tableSections() []page.Section {
	out := []page.Section{{
		ID:    "table",
		Title: "Table",
		Note: "Medians; in small, the least and the most of the repetitions, and from six repetitions on, where the median " +
			"of very many would lie (95 %, by order statistics). Each run is a line of results.csv.",
		Table: o.table,
	}}
	if v := o.verdicts(); len(v) > 0 {
		out = append(out, page.Section{
			ID:    "bounds",
			Title: "Bounds",
			Note:  "What the file demands, judged by medians. A ratio is always of two figures of the same round.",
			Table: page.TextTable(trial.VerdictHead, trial.VerdictRows(v), len(trial.VerdictHead)-1),
		})
	}
	if len(o.failures) > 0 {
		var rows [][]string
		for _, f := range o.failures {
			rows = append(rows, []string{f.Cell, fmt.Sprint(f.Round), f.Why})
		}
		out = append(out, page.Section{
			ID:    "failed",
			Title: "Failed",
			Note:  "Runs that are no result, and are in no figure.",
			Table: page.TextTable([]string{"run", "round", "why"}, rows, 2),
		})
	}
	return out
}

const aboutPhases = "The last phases of one run of each kind: a row for each readout unit. Full colour: it sends, in " +
	"the colour of the builder unit it sends to. Pale: it has sent and waits for the others. Grey: it has nothing to " +
	"send in that phase. Times are each node's own clock; on one machine that is the same. Touch a phase to read it."

// lead says how much was measured, and when.
func (o *pageData) lead() string {
	lead := fmt.Sprintf("%d of %d runs have a result", o.goodRuns, o.total)
	if n := len(o.failures); n > 0 {
		lead += fmt.Sprintf(", %d failed", n)
	}
	lead += fmt.Sprintf(". %d combinations in random order", len(o.groups))
	n := len(o.Starts)
	if n == 0 {
		return lead + "."
	}
	var ended time.Time
	for i := range o.Runs {
		if end := o.Runs[i].Started.Add(time.Duration(o.Runs[i].WallS * float64(time.Second))); end.After(ended) {
			ended = end
		}
	}
	return lead + fmt.Sprintf(", %d rounds. %s to %s.", o.Starts[n-1].Rounds, page.FormatTime(o.Starts[0].Started),
		page.FormatTime(ended))
}

// referenceSection lists the limits of the machine or bed.
func (o *pageData) referenceSection() page.Section {
	p := page.Section{ID: "references", Title: "References", Note: "None were measured."}
	all := referencesOf(o.References)
	if len(all) > 0 {
		p.Note = "What the same place could do at most, measured between the runs. Where they differ much, something " +
			"else was at work."
	}
	p.Table.Heads = []string{"what", "Gbit/s", "times", "from", "to"}
	for _, r := range all {
		times := page.Cell{Text: fmt.Sprint(r.gbps.N)}
		if len(r.fails) > 0 {
			times.Small = fmt.Sprintf("%d failed: %s", len(r.fails), r.fails[0])
		}
		p.Table.Rows = append(p.Table.Rows, []page.Cell{{Text: r.name, Words: true}, page.SpreadCell(r.gbps), times,
			{Text: page.FormatTime(r.first)}, {Text: page.FormatTime(r.last)}})
	}
	return p
}

// tableOf lists the medians. A metric that no run has gets no column.
func tableOf(all []*group) page.Table {
	var keys []string
	series := map[string]bool{}
	for _, g := range all {
		series[g.series] = true
		for _, v := range g.varied {
			if !slices.Contains(keys, v.Key) {
				keys = append(keys, v.Key)
			}
		}
	}
	t := page.Table{Rows: make([][]page.Cell, len(all))}
	add := func(head string, of func(*group) page.Cell) {
		t.Heads = append(t.Heads, head)
		for i, g := range all {
			t.Rows[i] = append(t.Rows[i], of(g))
		}
	}
	if len(series) > 1 {
		add("series", func(g *group) page.Cell { return page.Cell{Text: g.series} })
	}
	for _, key := range keys {
		add(key, func(g *group) page.Cell { text, _ := findValue(key, g.varied); return page.Cell{Text: text} })
	}
	if slices.ContainsFunc(all, func(g *group) bool { return g.setup.Credits > 0 }) {
		add("credits", func(g *group) page.Cell { return page.Cell{Text: fmt.Sprint(g.setup.Credits)} })
	}
	add("runs", func(g *group) page.Cell {
		if g.failed > 0 {
			return page.Cell{Text: fmt.Sprint(len(g.runs)), Small: fmt.Sprintf("%d failed", g.failed)}
		}
		return page.Cell{Text: fmt.Sprint(len(g.runs))}
	})
	for _, m := range append(slices.Clone(metrics),
		metric{
			title:  "Build latency",
			unit:   "ms, p50",
			figure: "build_latency_us.p50",
			scale:  1e-3,
		}) {
		most := 0.0
		for _, g := range all {
			if s, ok := g.spreadOf(m); ok {
				most = max(most, s.Max)
			}
		}
		if most == 0 {
			continue
		}
		add(m.title+", "+m.unit, func(g *group) page.Cell {
			s, _ := g.spreadOf(m)
			return page.SpreadCell(s)
		})
	}
	return t
}

func referencesOf(all []referenceLine) []reference {
	var out []reference
	values := map[string][]float64{}
	for _, r := range all {
		i := slices.IndexFunc(out, func(o reference) bool { return o.name == r.Name })
		if i < 0 {
			i = len(out)
			out = append(out, reference{name: r.Name, first: r.Started})
		}
		out[i].last = r.Started
		if r.Error != "" {
			out[i].fails = append(out[i].fails, r.Error)
			continue
		}
		values[r.Name] = append(values[r.Name], r.Gbps)
	}
	for i := range out {
		out[i].gbps = trial.SpreadOf(values[out[i].name])
	}
	return out
}

const (
	// mostTimelines is enough for each pair of discipline and barrier that a sweep compares.
	mostTimelines = 8
	// mostPhases bounds a timeline: more cannot be told apart on a screen.
	mostPhases = 1500
	// preferredRUs is the number of readout units that is best read at a glance, a row for each.
	preferredRUs = 8
)

// timelines picks a run of each discipline with each barrier, with a size near preferredRUs.
func timelines(all []*group) []page.Timeline {
	type kind struct{ discipline, barrier string }
	best := map[kind]*group{}
	var order []kind
	for _, g := range all {
		if len(g.runs) == 0 || len(g.runs[len(g.runs)-1].report.Timeline) == 0 {
			continue
		}
		k := kind{g.setup.Discipline, g.setup.Barrier}
		was := best[k]
		if was == nil {
			order = append(order, k)
		}
		if was == nil || distanceFromGoodSize(g) < distanceFromGoodSize(was) {
			best[k] = g
		}
	}
	var out []page.Timeline
	for _, k := range order[:min(len(order), mostTimelines)] {
		g := best[k]
		run := g.runs[len(g.runs)-1]
		out = append(out, timelineOf(fmt.Sprintf("%s, round %d", label(g, "", true), run.Round), run.report.Timeline))
	}
	return out
}

func distanceFromGoodSize(g *group) int {
	return max(g.setup.RUs-preferredRUs, preferredRUs-g.setup.RUs)
}

// timelineOf draws the phases since the moment from which all readout units have recorded theirs.
func timelineOf(title string, all []phase) page.Timeline {
	first := map[int]float64{}
	for _, p := range all {
		if b, ok := first[p.RU]; !ok || p.Begin < b {
			first[p.RU] = p.Begin
		}
	}
	t := page.Timeline{Title: title, Phases: [][6]float64{}}
	begin := slices.Max(slices.Collect(maps.Values(first)))
	slices.SortStableFunc(all, func(a, b phase) int { return cmp.Compare(a.Begin, b.Begin) })
	for _, p := range all {
		t.RUs = max(t.RUs, p.RU+1)
		end := max(p.Sent, p.Released)
		if end < begin || len(t.Phases) == mostPhases {
			continue
		}
		sent := max(p.Sent, p.Begin) // a burst without an outcome was not sent
		t.Phases = append(t.Phases, [6]float64{float64(p.RU), max(0, p.Begin-begin), max(0, sent-begin), max(0, end-begin),
			float64(p.BU), float64(p.MEP)})
		t.Span = max(t.Span, end-begin)
	}
	return t
}
