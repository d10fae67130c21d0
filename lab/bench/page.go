package bench

import (
	"io"
	"math"
	"slices"
	"time"

	"ringlet/lab/page"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// WritePage writes the report as one file of HTML: the comparison drawn, then the tables that a terminal gets.
func (r *Report) WritePage(w io.Writer) error { return r.page().Write(w) }

func (r *Report) page() *page.Page {
	p := &page.Page{Kind: "Ringlet bench", Name: "Carriers and references", Lead: r.lead() + ". Began " + r.Started + "."}
	drawn := page.Section{
		ID:    "drawn",
		Title: "The comparison",
		Note: "Medians of the rounds; whiskers reach from the least to the most. Hatched: published by others, on other " +
			"machines, for other work; the table below says which.",
	}
	if len(r.SideRows) > 0 {
		drawn.Figures = append([]page.Figure{r.throughput()}, r.shares()...)
	}
	p.Sections = append(p.Sections, drawn)
	if len(r.Carriers) > 0 {
		p.Sections = append(p.Sections, page.Section{
			ID:      "sizes",
			Title:   "Over the size of a write",
			Note:    "Medians of the rounds; whiskers reach from the least to the most.",
			Figures: r.overSizes(),
		})
	}
	p.Sections = append(p.Sections, r.sections()...)
	started, _ := time.Parse(time.RFC3339, r.Started) // it is ours
	p.Sections = append(p.Sections, page.Section{
		ID:    "machine",
		Title: "Machine",
		Note:  "The command below repeats the measurement.",
		Ran:   []page.Ran{{Started: started, Machine: r.Machine}},
		Text:  r.Command,
	})
	return p
}

// bars is a figure of the paths for which of returns a spread.
func (r *Report) bars(title, unit, note string, of func(*SideRow) *trial.Spread) page.Figure {
	f := page.Figure{
		Title: title,
		Note:  note,
		Y:     page.Axis{Label: title + " (" + unit + ")"},
		Bars:  true,
	}
	var points []page.Point
	for i := range r.SideRows {
		if s := of(&r.SideRows[i]); s != nil && s.N > 0 {
			at := float64(len(points))
			f.X.Ticks = append(f.X.Ticks, page.Tick{At: at, Label: r.SideRows[i].Name})
			points = append(points, page.Point{X: at, Spread: *s})
		}
	}
	f.Curves = []page.Curve{{Name: title, Points: points}}
	return f
}

// throughput draws the goodput between processes, and the published figures.
func (r *Report) throughput() page.Figure {
	f := r.bars("Between processes", "Gbit/s, logarithmic", "What a folded node sends to itself is not counted.",
		func(s *SideRow) *trial.Spread {
			if s.BusGoodput.Min <= 0 {
				return nil // a logarithmic axis has no 0
			}
			return &s.BusGoodput
		})
	f.Y.Log = true
	for _, p := range r.Published {
		at := float64(len(f.X.Ticks))
		f.X.Ticks = append(f.X.Ticks, page.Tick{At: at, Label: p.Who, Elsewhere: true})
		f.Curves[0].Points = append(f.Curves[0].Points, page.Point{X: at, Spread: trial.SpreadOf([]float64{p.Figure})})
	}
	return f
}

// shares draws the processor time of each path, and its share of each limit.
func (r *Report) shares() []page.Figure {
	percent := func(ratio *trial.Ratio) *trial.Spread {
		if ratio == nil {
			return nil
		}
		s := ratio.Scaled(100)
		return &s
	}
	all := []page.Figure{
		r.bars("Processor time", "s per GB", "Of all processes, user and kernel.",
			func(s *SideRow) *trial.Spread { return s.CPU }),
		r.bars("Of a copy", "%", "Of what one process copies into mapped memory.",
			func(s *SideRow) *trial.Spread { return percent(s.RatioToCopy) }),
		r.bars("Of the cipher", "%", "Of what one process seals.",
			func(s *SideRow) *trial.Spread { return percent(s.RatioToCipher) }),
		r.bars("Of the kernel", "%", "Of raw UDP with GSO and GRO, or where that is not measured of TCP.",
			func(s *SideRow) *trial.Spread { return percent(s.RatioToKernel) }),
	}
	return slices.DeleteFunc(all, func(f page.Figure) bool { return len(f.X.Ticks) == 0 })
}

// overSizes draws each carrier against the size of its writes.
func (r *Report) overSizes() []page.Figure {
	x := page.Axis{Label: "size of a write"}
	at := func(size int) float64 { return math.Log2(float64(size)) }
	for i := range r.Carriers {
		size := r.Carriers[i].Size
		if !slices.ContainsFunc(x.Ticks, func(t page.Tick) bool { return t.At == at(size) }) {
			x.Ticks = append(x.Ticks, page.Tick{At: at(size), Label: config.Bytes(size).String()})
		}
	}
	rate := page.Figure{Title: "Throughput", X: x, Y: page.Axis{Label: "Gbit/s", Log: true}}
	idle := page.Figure{
		Title: "One write with its response, when idle",
		X:     x,
		Y:     page.Axis{Label: "µs, p50", Log: true},
	}
	add := func(f *page.Figure, c *CarrierRow, s trial.Spread) {
		if n := len(f.Curves); n == 0 || f.Curves[n-1].Name != c.Carrier {
			f.Curves = append(f.Curves, page.Curve{Name: c.Carrier})
		}
		curve := &f.Curves[len(f.Curves)-1]
		if s.Min > 0 { // on a logarithmic axis
			curve.Points = append(curve.Points, page.Point{X: at(c.Size), Spread: s})
		}
	}
	for i := range r.Carriers {
		add(&rate, &r.Carriers[i], r.Carriers[i].Goodput)
		add(&idle, &r.Carriers[i], r.Carriers[i].WriteTimes.P50)
	}
	return []page.Figure{rate, idle}
}
