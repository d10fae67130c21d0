package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ringlet/lab/page"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// section has the figures with one x-axis.
type section struct {
	title   string
	figures []page.Figure
}

// metric is a measured value that may be drawn over any axis.
type metric struct {
	title  string
	unit   string
	note   string
	figure string // of a run
	scale  float64
	log    bool
	shown  func(m *measuredRun, v float64) bool // whether to draw the run's value; nil = always
}

// value returns the metric of a run.
func (x *metric) value(m *measuredRun) (float64, bool) {
	v, ok := m.figures[x.figure]
	return v, ok && (x.shown == nil || x.shown(m, v))
}

// hasBarrier is true if the run separates phases and has a figure for it.
func hasBarrier(m *measuredRun, v float64) bool { return v > 0 && m.Setup.Barrier != config.NoBarrier }

func isPositive(_ *measuredRun, v float64) bool { return v > 0 }

func hasSentChunks(m *measuredRun, _ float64) bool { return m.figures["chunks_sent"] > 0 }

var metrics = []metric{
	{"Event rate", "kHz", "Events built per second, over the whole system.", "event_rate_hz", 1e-3, false, nil},
	{"Throughput", "Gbit/s", "Bytes built, over the whole system, what nodes send to themselves included.",
		"goodput_gbps", 1, false, nil},
	{"Efficiency of a port", "% of its rate",
		"What crossed the busiest host's port over the port's rate. What a node sends to itself crosses none, and is not " +
			"counted.", "efficiency", 100, false, nil},
	{"Sent again", "% of chunks", "Chunks that were lost on the way, or taken for lost.", "resent_share", 100, false,
		hasSentChunks},
	{"Dropped by the switch", "% of packets", "Packets that found the queue of a port of the test bed full.",
		"switch_dropped_share", 100, false, nil},
	{"Event rate of a builder unit", "kHz, median of the units",
		"The rate of an undisturbed builder unit: one that is stopped does not change the median.",
		"builder_p50_hz", 1e-3, false, nil},
	{"Time per barrier", "µs, median", "From entering a barrier to leaving it, at a readout unit.", "barrier_us.p50", 1,
		false, hasBarrier},
	{"Time in barriers", "% of the time", "Of the readout units' time between the first phase and the last.",
		"barrier_share", 100, false, hasBarrier},
	{"Skew of phases", "µs, median", "From the first that entered a barrier to the last.", "phase_skew_us.p50", 1, false,
		hasBarrier},
	{"Build latency", "ms, p99", "From a token's issue to its MEP being complete, by which 99 of 100 were.",
		"build_latency_us.p99", 1e-3, true, isPositive},
	{"Discarded", "% of events", "Of the events that tokens were given for.", "lost_share", 100, false,
		nil},
	{"Processor time", "s per GB built",
		"Of all nodes, user and kernel. A node that looks for packets without sleeping counts.", "cpu_s_per_gb", 1, false,
		nil},
}

// sections decides which figures to draw, by the settings that vary.
func sections(all []*group) []section {
	byAxis := map[string][]*group{}
	var order []string
	var series []string
	for _, g := range all {
		if !slices.Contains(series, g.series) {
			series = append(series, g.series)
		}
	}
	for _, name := range series {
		seriesGroups := slices.DeleteFunc(slices.Clone(all), func(g *group) bool { return g.series != name })
		x := chooseAxis(seriesGroups)
		if byAxis[x] == nil {
			order = append(order, x)
		}
		byAxis[x] = append(byAxis[x], seriesGroups...)
	}
	var out []section
	for _, x := range order {
		out = append(out, sectionOf(byAxis[x], x))
	}
	return out
}

func sectionOf(all []*group, x string) section {
	names := map[string]bool{}
	for _, g := range all {
		names[g.series] = true
	}
	p := axisLayout{groups: all, key: x, named: len(names) > 1}
	p.layOut()
	s := section{title: p.title()}
	for _, m := range metrics {
		if f, ok := p.figure(m); ok {
			s.figures = append(s.figures, f)
		}
	}
	if f, ok := p.latencies(); ok {
		s.figures = append(s.figures, f)
	}
	return s
}

// axisLayout is an x-axis with the positions of the combinations on it.
type axisLayout struct {
	groups   []*group
	key      string // "" = no numeric setting varies: each combination has a tick of its own
	named    bool   // curves are labelled with their series
	x        page.Axis
	position map[*group]float64
}

func (p *axisLayout) title() string {
	if p.key == "" {
		return "Side by side"
	}
	return "Over " + axisTitle(p.key)
}

// axisTitle is the title of an axis, if the key alone says too little.
func axisTitle(key string) string {
	switch key {
	case "nodes":
		return "the size of the system"
	case keyLoad:
		return "the load offered"
	case "pull-window":
		return "the requests under way"
	case "debug.suspend-for":
		return "the time of a suspension"
	case "debug.drop":
		return "what is lost"
	}
	return strings.ReplaceAll(strings.TrimPrefix(key, "debug."), "-", " ")
}

// layOut gives each combination its position.
func (p *axisLayout) layOut() {
	p.position = map[*group]float64{}
	if p.key == "" {
		for i, g := range p.groups {
			p.position[g] = float64(i)
			p.x.Ticks = append(p.x.Ticks, page.Tick{At: float64(i), Label: label(g, "", p.named)})
		}
		return
	}
	var values []float64
	unit := ""
	for _, g := range p.groups {
		text, _ := findValue(p.key, g.varied)
		v, u, _ := numberOf(p.key, text)
		values = append(values, v)
		unit = u
	}
	p.x.Label = strings.ReplaceAll(strings.TrimPrefix(p.key, "debug."), "-", " ")
	if unit != "" {
		p.x.Label += " (" + unit + ")"
	}
	for i, g := range p.groups {
		at := axisPosition(values[i], values)
		p.position[g] = at
		if !slices.ContainsFunc(p.x.Ticks, func(t page.Tick) bool { return t.At == at }) {
			p.x.Ticks = append(p.x.Ticks, page.Tick{At: at, Label: trial.Trimmed(values[i], 4)})
		}
	}
	slices.SortFunc(p.x.Ticks, func(a, b page.Tick) int { return cmp.Compare(a.At, b.At) })
}

// figure draws a metric, if any run has it.
func (p *axisLayout) figure(m metric) (page.Figure, bool) {
	f := page.Figure{
		Title: m.title,
		Note:  m.note,
		X:     p.x,
		Y:     page.Axis{Label: m.title + " (" + m.unit + ")", Log: m.log},
		Bars:  p.key == "",
	}
	most := 0.0
	for _, g := range p.groups {
		s, ok := g.spreadOf(m)
		if !ok {
			continue
		}
		most = max(most, s.Max)
		name := m.title
		if !f.Bars {
			name = label(g, p.key, p.named)
		}
		f.Curves = addTo(f.Curves, name, page.Point{X: p.position[g], Spread: s})
	}
	for _, c := range f.Curves {
		slices.SortFunc(c.Points, func(a, b page.Point) int { return cmp.Compare(a.X, b.X) })
	}
	f.Y.Log = f.Y.Log && !f.Bars && most > 0 && needsLogAxis(f.Curves)
	return f, most > 0
}

// needsLogAxis says whether a logarithmic axis shows more.
func needsLogAxis(all []page.Curve) bool {
	var v []float64
	for _, c := range all {
		for _, p := range c.Points {
			if p.Min <= 0 {
				return false
			}
			v = append(v, p.Median)
		}
	}
	return spansDecades(v)
}

func addTo(all []page.Curve, name string, p page.Point) []page.Curve {
	for i := range all {
		if all[i].Name == name {
			all[i].Points = append(all[i].Points, p)
			return all
		}
	}
	return append(all, page.Curve{Name: name, Points: []page.Point{p}})
}

// latencies draws the quantiles of the build latency of each combination at the largest x.
func (p *axisLayout) latencies() (page.Figure, bool) {
	quantile := []string{"p50", "p99", "p999", "max"}
	f := page.Figure{
		Title: "Distribution of build latency",
		Note: "From a token's issue to its MEP being complete: the median, what 99 and 999 of 1000 were below, and the " +
			"longest.",
		Y: page.Axis{Label: "Build latency (ms)", Log: true},
	}
	largest := p.position[p.groups[0]]
	for _, g := range p.groups {
		largest = max(largest, p.position[g])
	}
	if p.key != "" {
		f.Note += fmt.Sprintf(" Of the runs at the right end of the other figures, %s: %s.", p.x.Label,
			p.x.Ticks[len(p.x.Ticks)-1].Label)
	}
	for i, q := range quantile {
		f.X.Ticks = append(f.X.Ticks, page.Tick{At: float64(i), Label: strings.Replace(q, "p999", "p99.9", 1)})
		for _, g := range p.groups {
			if p.key != "" && p.position[g] != largest {
				continue
			}
			if s, ok := g.spreadOf(metric{figure: "build_latency_us." + q, scale: 1e-3, shown: isPositive}); ok {
				f.Curves = addTo(f.Curves, label(g, p.key, p.named), page.Point{X: float64(i), Spread: s})
			}
		}
	}
	return f, len(f.Curves) > 0
}
