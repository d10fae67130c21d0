package efficiency

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"ringlet/lab/page"
	"ringlet/lab/trial"
)

// The figures of the documents, which stand beside the measured ones.
const (
	documentedKeptShare  = "4 % of all events (1.11 MHz to 40 kHz, L1-farm §2.4)"
	documentedPrimaryZ   = "49 µm along the beam (L1-farm §1.1)"
	documentedSecondaryZ = "225 µm along the beam, of whole B decays with momenta (L1-farm §1.1)"
	documentedTime       = "4.8 ms, 2 ms expected in 2003 (L1-farm §6.1.2), 500 µs three years later (L1-farm §6.1.2)"
)

// WritePage writes the report as one file of HTML.
func (r *Report) WritePage(w io.Writer) error {
	cell := func(text string) page.Cell { return page.Cell{Text: text, Words: true} }
	rows := [][]page.Cell{
		{cell("accepted of events with a clean decay"), cell(r.Clean.String()), cell("")},
		{cell("of events with a visible decay"), cell(r.Visible.String()), cell("")},
		{cell("of all events with B mesons"), cell(r.Displaced.String()), cell("")},
		{cell("of the others"), cell(r.OtherEvents.String()), cell(documentedKeptShare)},
		{cell("collisions found"), cell(r.PrimariesFound.String()), cell("")},
		{cell("primary vertex, σ"),
			cell(fmt.Sprintf("%.0f µm along the beam, %.0f µm across", r.PrimaryZ.centralSigma(), r.PrimaryX.centralSigma())),
			cell(documentedPrimaryZ)},
		{cell("secondary vertex, σ"), cell(fmt.Sprintf("%.0f µm along the beam", r.SecondaryZ.centralSigma())),
			cell(documentedSecondaryZ)},
		{cell("one event"), cell(r.meanEventTime().String() + " of a processor"), cell(documentedTime)},
	}
	p := &page.Page{
		Kind: "Ringlet bench",
		Name: "What the vertex filter finds",
		Lead: fmt.Sprintf("%d simulated events of seed %d, %.0f clusters each, in which the filter looked for decays: %s",
			len(r.times), r.Config.Seed, r.NoisyData.ClustersPerEvent.mean(), r.Config.Command),
		Sections: []page.Section{
			{
				ID:    "table",
				Title: "What it found",
				Note:  describeCuts(),
				Table: page.Table{Heads: []string{"", "here", "documents"}, Rows: rows},
			},
			{ID: "drawn", Title: "Curves", Figures: []page.Figure{
				r.byFlight(),
				deviationFigure("Primary vertex along the beam", r.PrimaryZ.micrometres, 400),
				deviationFigure("Primary vertex across the beam", r.PrimaryX.micrometres, 80),
				deviationFigure("Secondary vertex along the beam", r.SecondaryZ.micrometres, 2000),
				r.stepsDrawn(),
			}},
			r.dataSection(),
			{ID: "machine", Title: "Machine", Ran: []page.Ran{{Started: r.Began,
				Machine: page.ThisMachine(r.Config.Version).ForProcesses(1)}}},
		},
	}
	return p.Write(w)
}

// describeCuts explains the words visible and clean.
func describeCuts() string {
	of := func(s *decayCuts) string {
		return fmt.Sprintf("at least %d tracks with %d hits on R and on φ sensors each, an impact parameter of %g mm, a "+
			"momentum of %g GeV, and %g mm from the collision along the beam",
			minDecayTracks, s.minHits, s.minImpact, s.minMomentum, s.minFlight)
	}
	return "A visible decay of a B meson has " + of(&visibleCuts) + ". A clean one has " + of(&cleanCuts) +
		". The filter knows no " +
		"momentum. Shares are given with their standard deviation. Resolutions are half of what the middle 68 % span."
}

func (r *Report) byFlight() page.Figure {
	c := page.Curve{Name: "visible decays"}
	for i, s := range r.ByFlight {
		if v, sigma := s.fraction(); s.All > 0 {
			c.Points = append(c.Points, page.Point{
				X: (float64(i) + 0.5) * flightBinWidth,
				Spread: trial.Spread{
					N:      int(s.All),
					Median: 100 * v,
					Min:    100 * max(0, v-sigma),
					Max:    100 * min(1, v+sigma),
				},
			})
		}
	}
	return page.Figure{
		Title:  "Accepted over the flight of the B meson",
		Note:   "Whiskers are one standard deviation.",
		X:      page.Axis{Label: "flight along the beam, mm"},
		Y:      page.Axis{Label: "accepted, %"},
		Curves: []page.Curve{c},
	}
}

// deviationFigure draws deviations up to a limit, in µm.
func deviationFigure(title string, all []float64, limit float64) page.Figure {
	const bins = 40
	var counts [bins]int
	outside := 0
	for _, d := range all {
		if i := int(math.Floor((d + limit) / (2 * limit) * bins)); i >= 0 && i < bins {
			counts[i]++
		} else {
			outside++
		}
	}
	c := page.Curve{Name: "events"}
	for i, n := range counts {
		c.Points = append(c.Points, point(-limit+(float64(i)+0.5)*2*limit/bins, float64(n)))
	}
	return page.Figure{
		Title:  title,
		Note:   fmt.Sprintf("%d found; %d lie outside.", len(all), outside),
		X:      page.Axis{Label: "found − true, µm"},
		Y:      page.Axis{Label: "events"},
		Curves: []page.Curve{c},
	}
}

func (r *Report) stepsDrawn() page.Figure {
	f := page.Figure{
		Title:  "Time of an event by step",
		Note:   "Of a processor, on average.",
		X:      page.Axis{Label: "step"},
		Y:      page.Axis{Label: "µs"},
		Bars:   true,
		Curves: []page.Curve{{Name: "steps"}},
	}
	for i, name := range stepNames {
		f.X.Ticks = append(f.X.Ticks, page.Tick{At: float64(i), Label: name})
		f.Curves[0].Points = append(f.Curves[0].Points, point(float64(i), r.step(i)))
	}
	return f
}

// MarshalJSON writes the figures that Print prints.
func (r *Report) MarshalJSON() ([]byte, error) {
	steps := map[string]float64{}
	for i, name := range stepNames {
		steps[name] = r.step(i)
	}
	return json.Marshal(map[string]any{
		"events": len(r.times), "seed": r.Config.Seed, "data": r.NoisyData.figures(),
		"without_noise": r.NoiselessData.figures(), "clean": r.Clean, "visible": r.Visible, "displaced": r.Displaced,
		"others": r.OtherEvents, "primaries": r.PrimariesFound,
		"by_flight_mm":   r.ByFlight[:],
		"primary_z_um":   r.PrimaryZ.centralSigma(),
		"primary_x_um":   r.PrimaryX.centralSigma(),
		"secondary_z_um": r.SecondaryZ.centralSigma(),
		"elsewhere":      r.MisplacedSecondaries,
		"mean_us":        float64(r.meanEventTime().Nanoseconds()) / 1000,
		"steps_us":       steps,
		"p99_us":         float64(r.quantile(0.99)) / float64(time.Microsecond),
	})
}
