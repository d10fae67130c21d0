package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"ringlet/lab/trial"
)

// page is everything in report.html. The template writes its words and tables, the script draws its figures.
type page struct {
	Name       string
	Starts     []start
	First      start
	Ended      time.Time
	Good, Of   int
	Failures   []failure
	Table      table
	References []reference
	Verdicts   []trial.Verdict
	Drawn      drawn
}

// drawn is what the script gets.
type drawn struct {
	Sections  []section  `json:"sections"`
	Timelines []timeline `json:"timelines"`
}

type failure struct {
	Cell  string
	Round int
	Why   string
}

type reference struct {
	Name  string
	Gbps  trial.Spread
	First time.Time
	Last  time.Time
	Fails []string
}

// table has a row a combination.
type table struct {
	Heads []string
	Rows  [][]entry
}

// entry is a median with its spread, or a word.
type entry struct{ Text, Spread string }

// timeline shows what each readout unit did in the last phases of one run.
type timeline struct {
	Title string `json:"title"`
	RUs   int    `json:"rus"`
	// RU, begin, sent, released (µs from the left end), BU (-1 = nothing to send), MEP: there are many
	Phases [][6]float64 `json:"phases"`
	Span   float64      `json:"span"` // µs
}

func pageOf(r *results) *page {
	p := &page{Starts: r.Starts}
	if len(r.Starts) > 0 {
		p.First = r.Starts[0]
		last := r.Starts[len(r.Starts)-1]
		p.Name, p.Of = p.First.Name, last.Rounds*len(last.Cells)
	}
	good, failed := r.read()
	p.Good, p.Of = len(good), max(p.Of, len(good)+len(failed)) // fewer rounds may be asked for than there are
	for _, rec := range failed {
		p.Failures = append(p.Failures, failure{rec.Cell, rec.Round, rec.Error})
	}
	for i := range r.Runs {
		if end := r.Runs[i].Started.Add(time.Duration(r.Runs[i].WallS * float64(time.Second))); end.After(p.Ended) {
			p.Ended = end
		}
	}
	all := groups(good, failed)
	arrange(all, p.First.Cells)
	p.Table = tableOf(all)
	p.References = referencesOf(r.References)
	p.Verdicts = r.verdicts()
	p.Drawn = drawn{Sections: sections(slices.DeleteFunc(slices.Clone(all),
		func(g *group) bool { return len(g.runs) == 0 })), Timelines: timelines(all)}
	return p
}

// tableOf lists the medians. What no run has gets no column.
func tableOf(all []*group) table {
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
	t := table{Rows: make([][]entry, len(all))}
	add := func(head string, of func(*group) entry) {
		t.Heads = append(t.Heads, head)
		for i, g := range all {
			t.Rows[i] = append(t.Rows[i], of(g))
		}
	}
	if len(series) > 1 {
		add("series", func(g *group) entry { return entry{Text: g.series} })
	}
	for _, key := range keys {
		add(key, func(g *group) entry { text, _ := g.value(key); return entry{Text: text} })
	}
	if slices.ContainsFunc(all, func(g *group) bool { return g.setup.Credits > 0 }) {
		add("credits", func(g *group) entry { return entry{Text: fmt.Sprint(g.setup.Credits)} })
	}
	add("runs", func(g *group) entry {
		if g.failed > 0 {
			return entry{Text: fmt.Sprint(len(g.runs)), Spread: fmt.Sprintf("%d failed", g.failed)}
		}
		return entry{Text: fmt.Sprint(len(g.runs))}
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
			if s, ok := g.over(m); ok {
				most = max(most, s.Max)
			}
		}
		if most == 0 {
			continue
		}
		add(m.title+", "+m.unit, func(g *group) entry {
			s, ok := g.over(m)
			if !ok {
				return entry{Text: trial.None}
			}
			e := entry{Text: short(s.Median)}
			if s.Min < s.Max {
				e.Spread = short(s.Min) + "–" + short(s.Max)
			}
			return e
		})
	}
	return t
}

// short writes a number with three digits that matter, or all before the point.
func short(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return trimmed(v, min(max(digits, 0), 6))
}

func referencesOf(all []referenceLine) []reference {
	var out []reference
	values := map[string][]float64{}
	for _, r := range all {
		i := slices.IndexFunc(out, func(o reference) bool { return o.Name == r.Name })
		if i < 0 {
			i = len(out)
			out = append(out, reference{Name: r.Name, First: r.Started})
		}
		out[i].Last = r.Started
		if r.Error != "" {
			out[i].Fails = append(out[i].Fails, r.Error)
			continue
		}
		values[r.Name] = append(values[r.Name], r.Gbps)
	}
	for i := range out {
		out[i].Gbps = trial.SpreadOf(values[out[i].Name])
	}
	return out
}

const (
	// mostTimelines: one for each pair of discipline and barrier that issue 4 compares, and some.
	mostTimelines = 8
	// mostPhases of one timeline: more cannot be told apart on a screen.
	mostPhases = 1500
	// goodSize of a system on a timeline: as many rows as are read at a glance.
	goodSize = 8
)

// timelines picks a run of each discipline with each barrier, of a size that can be looked at.
func timelines(all []*group) []timeline {
	type kind struct{ discipline, barrier string }
	best := map[kind]*group{}
	var order []kind
	for _, g := range all {
		if len(g.runs) == 0 || len(g.runs[len(g.runs)-1].out.Timeline) == 0 {
			continue
		}
		k := kind{g.setup.Discipline, g.setup.Barrier}
		was := best[k]
		if was == nil {
			order = append(order, k)
		}
		if was == nil || off(g) < off(was) {
			best[k] = g
		}
	}
	out := []timeline{}
	for _, k := range order[:min(len(order), mostTimelines)] {
		g := best[k]
		run := g.runs[len(g.runs)-1]
		out = append(out, timelineOf(fmt.Sprintf("%s, round %d", label(g, "", true), run.Round), run.out.Timeline))
	}
	return out
}

func off(g *group) int { return max(g.setup.RUs-goodSize, goodSize-g.setup.RUs) }

// timelineOf lays the phases from the moment from which all readout units have theirs.
func timelineOf(title string, all []phase) timeline {
	first := map[int]float64{}
	for _, p := range all {
		if b, ok := first[p.RU]; !ok || p.Begin < b {
			first[p.RU] = p.Begin
		}
	}
	t := timeline{Title: title, Phases: [][6]float64{}}
	begin := slices.Max(slices.Collect(maps.Values(first)))
	slices.SortStableFunc(all, func(a, b phase) int { return cmp.Compare(a.Begin, b.Begin) })
	for _, p := range all {
		t.RUs = max(t.RUs, p.RU+1)
		end := max(p.Sent, p.Released)
		if end < begin || len(t.Phases) == mostPhases {
			continue
		}
		sent := max(p.Sent, p.Begin) // what had no outcome was not sent
		t.Phases = append(t.Phases, [6]float64{float64(p.RU), max(0, p.Begin-begin), max(0, sent-begin), max(0, end-begin),
			float64(p.BU), float64(p.MEP)})
		t.Span = max(t.Span, end-begin)
	}
	return t
}
