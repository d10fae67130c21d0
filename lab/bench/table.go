package bench

import (
	"fmt"
	"io"
	"strings"
	"time"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// listing is a table of a report, for a terminal and for the page alike.
type listing struct {
	id, title       string
	head            []string
	rows            [][]string
	sentenceColumns []int // columns that hold sentences
}

// WriteTable prints the report for people: figures and ratios first, then the targets and what stood in the way.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n", r.lead(), &r.Machine)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is of the rounds so far")
	}
	for _, l := range r.listings() {
		if err := trial.Table(w, l.title, l.head, l.rows); err != nil {
			return err
		}
	}
	for _, n := range r.notes() {
		if len(n.lines) > 0 {
			fmt.Fprintf(w, "\n%s\n  %s\n", n.title, strings.Join(n.lines, "\n  "))
		}
	}
	return nil
}

// lead says how it was measured.
func (r *Report) lead() string {
	out := fmt.Sprintf("%d of %d rounds, %s each, %d cores, %d at a time per process, spin %s, memory %s", r.RoundsDone,
		r.Rounds,
		time.Duration(r.DurationS*float64(time.Second)), r.Cores, r.Procs, time.Duration(r.SpinUs)*time.Microsecond,
		config.Bytes(r.Memory))
	if r.Peer != "" {
		out += fmt.Sprintf("; between this machine and %s", r.Peer)
	}
	return out
}

// note is a list of sentences.
type note struct {
	id, title string
	lines     []string
}

// notes say what stood in the way.
func (r *Report) notes() []note {
	var limits []string
	for _, l := range r.Limits {
		limits = append(limits, fmt.Sprintf("%s (%s): %s. %s", l.Limit, l.Host, l.Problem, l.Advice))
	}
	return []note{
		{"limits", "What binds on this machine", limits},
		{"left-out", "Left out", r.LeftOut},
		{"failed", "FAILED", r.Failed},
	}
}

// listings are all tables, in their order.
func (r *Report) listings() []listing {
	return []listing{r.sideTable(), r.publishedTable(), r.carrierTable(), r.referenceTable(), r.runTable(), {
		"targets", "Targets, set for a machine of 2 cores and judged by medians", trial.VerdictHead,
		trial.VerdictRows(r.Targets), []int{len(trial.VerdictHead) - 1},
	}}
}

// sideTable lists what was measured here by what it moves between processes and what that costs.
func (r *Report) sideTable() listing {
	share := func(of *trial.Ratio) string {
		if of == nil {
			return trial.NoFigure
		}
		return fmt.Sprintf("%.0f", 100*of.Median)
	}
	l := listing{
		id: "side",
		title: "Side by side: Gbit/s built or written, with where the median lies (95 %), what goes between processes, " +
			"and % of the machine's limits",
		head: []string{"path", "Gbit/s", "95 %", "bus Gbit/s", "CPU s/GB", "% of copy", "% of cipher", "% of kernel",
			"what it is"},
		sentenceColumns: []int{8},
	}
	for i := range r.SideRows {
		s := &r.SideRows[i]
		l.rows = append(l.rows, []string{
			s.Name, s.Goodput.Text("%.2f", 1), s.Goodput.Text95("%.2f", 1), fmt.Sprintf("%.2f", s.BusGoodput.Median),
			orNone(s.CPU, "%.2f", 1), share(s.RatioToCopy), share(s.RatioToCipher), share(s.RatioToKernel), s.What,
		})
	}
	return l
}

// publishedTable lists what others have published.
func (r *Report) publishedTable() listing {
	l := listing{
		id:              "published",
		title:           "Published by others, on their machines",
		head:            []string{"who", "figure", "what", "machine", "source"},
		sentenceColumns: []int{2, 3, 4},
	}
	for _, p := range r.Published {
		l.rows = append(l.rows, []string{p.Who, trial.Short(p.Figure) + " " + p.Unit, p.What, p.Machine, p.Source})
	}
	return l
}

func orNone(s *trial.Spread, format string, scale float64) string {
	if s == nil {
		return trial.NoFigure
	}
	return s.Text(format, scale)
}

func ratioText(r *trial.Ratio) string {
	if r == nil {
		return trial.NoFigure
	}
	return r.Text("%.2f", 1) + " × " + r.Reference
}

// timesText writes quantiles; t may be nil.
func timesText(t *trial.Times) string {
	if t == nil {
		return trial.NoFigure
	}
	return micros(t.P50.Median) + " / " + micros(t.P99.Median) + " / " + micros(t.P999.Median)
}

// micros writes µs, those below ten to a tenth.
func micros(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func (r *Report) carrierTable() listing {
	l := listing{
		id:    "carriers",
		title: "Carriers: median (least–most) of the rounds; times are p50 / p99 / p99.9 of one write when idle",
		head: []string{"ratio", "carrier", "size", "Gbit/s", "k datagrams/s", "B each", "re-sent %", "CPU s/GB near + far",
			"write µs", "answered µs", "M pieces/s"},
	}
	for i := range r.Carriers {
		c := &r.Carriers[i]
		name := c.Carrier
		if !c.Encrypted {
			name += " (open)"
		}
		l.rows = append(l.rows, []string{
			ratioText(c.Ratio), name, config.Bytes(c.Size).String(), c.Goodput.Text("%.2f", 1), c.DatagramRate.Text("%.0f",
				1e-3),
			fmt.Sprintf("%.0f", c.BytesPerDatagram.Median), c.ResentShare.Text("%.3g", 100),
			c.NearCPU.Text("%.2f", 1) + " + " + c.FarCPU.Text("%.2f", 1), timesText(&c.WriteTimes), timesText(c.AnsweredTimes),
			orNone(c.PieceRate, "%.2f", 1e-6),
		})
	}
	return l
}

func (r *Report) referenceTable() listing {
	l := listing{
		id:    "references",
		title: "References, of the same rounds",
		head: []string{"reference", "Gbit/s", "lost %", "CPU s/GB near + far", "trip µs", "barrier %",
			"what it is"},
		sentenceColumns: []int{6},
	}
	for i := range r.References {
		f := &r.References[i]
		cpu := orNone(f.NearCPU, "%.2f", 1)
		if f.FarCPU != nil {
			cpu += " + " + f.FarCPU.Text("%.2f", 1)
		}
		l.rows = append(l.rows, []string{
			f.Name, orNone(f.Goodput, "%.2f", 1), orNone(f.LostShare, "%.3g", 100), cpu, timesText(f.TripTimes),
			orNone(f.BarrierShare, "%.0f", 100), f.What,
		})
	}
	return l
}

func (r *Report) runTable() listing {
	l := listing{
		id:              "runs",
		title:           "Whole runs",
		head:            []string{"ratio", "run", "Gbit/s", "M events/s", "re-sent %", "CPU s/GB", "what it is"},
		sentenceColumns: []int{6},
	}
	for i := range r.Runs {
		n := &r.Runs[i]
		l.rows = append(l.rows, []string{
			ratioText(n.Ratio), n.Name, n.Goodput.Text("%.2f", 1), n.EventRate.Text("%.3f", 1e-6), n.ResentShare.Text("%.3g",
				100),
			n.CPU.Text("%.2f", 1), n.What,
		})
	}
	return l
}
