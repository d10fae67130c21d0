package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"ringlet/lab/page"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// WriteTable prints the report as text: figures and ratios first, then the targets and the limits.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n", r.lead(), &r.Machine)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is of the rounds so far")
	}
	return page.WriteText(w, r.sections())
}

// lead says how the figures were measured.
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

// sections are the tables and notes that are not empty, in their order, for a terminal and for the page.
func (r *Report) sections() []page.Section {
	limits := trial.RowsOf(r.Limits, func(l *HostLimit) []string {
		return []string{fmt.Sprintf("%s (%s): %s. %s", l.Limit, l.Host, l.Problem, l.Advice)}
	})
	return slices.DeleteFunc([]page.Section{
		r.sideTable(), r.publishedTable(), r.carrierTable(), r.referenceTable(), r.runTable(),
		tableSection("targets", "Targets, set for a machine of 2 cores and judged by medians", trial.VerdictHead,
			trial.VerdictRows(r.Targets), len(trial.VerdictHead)-1),
		{ID: "limits", Title: "What binds on this machine", Text: strings.Join(slices.Concat(limits...), "\n")},
		{ID: "left-out", Title: "Left out", Text: strings.Join(r.LeftOut, "\n")},
		{ID: "failed", Title: "FAILED", Text: strings.Join(r.Failed, "\n")},
	}, func(s page.Section) bool { return len(s.Table.Rows) == 0 && s.Text == "" })
}

// tableSection is a table; the columns in sentences may be broken into lines.
func tableSection(id, title string, head []string, rows [][]string, sentences ...int) page.Section {
	title, note, _ := strings.Cut(title, ": ")
	return page.Section{ID: id, Title: title, Note: note, Table: page.TextTable(head, rows, sentences...)}
}

// sideTable compares the paths: goodput between processes, and its cost.
func (r *Report) sideTable() page.Section {
	share := func(of *trial.Ratio) string {
		if of == nil {
			return trial.NoFigure
		}
		return fmt.Sprintf("%.0f", 100*of.Median)
	}
	return tableSection("side",
		"Side by side: Gbit/s built or written, with where the median lies (95 %), what goes between processes, "+
			"and % of the machine's limits",
		[]string{"path", "Gbit/s", "95 %", "bus Gbit/s", "CPU s/GB", "% of copy", "% of cipher", "% of kernel", "what it is"},
		trial.RowsOf(r.SideRows, func(s *SideRow) []string {
			return []string{
				s.Name, s.Goodput.Text("%.2f", 1), s.Goodput.Text95("%.2f", 1), fmt.Sprintf("%.2f", s.BusGoodput.Median),
				orNone(s.CPU, "%.2f", 1), share(s.RatioToCopy), share(s.RatioToCipher), share(s.RatioToKernel), s.What,
			}
		}), 8)
}

// publishedTable lists the published figures.
func (r *Report) publishedTable() page.Section {
	return tableSection("published", "Published by others, on their machines",
		[]string{"who", "figure", "what", "machine", "source"}, trial.RowsOf(r.Published, func(p *Published) []string {
			return []string{p.Who, trial.Short(p.Figure) + " " + p.Unit, p.What, p.Machine, p.Source}
		}), 2, 3, 4)
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

// timesText formats quantiles; t may be nil.
func timesText(t *trial.Times) string {
	if t == nil {
		return trial.NoFigure
	}
	return micros(t.P50.Median) + " / " + micros(t.P99.Median) + " / " + micros(t.P999.Median)
}

// micros formats µs, with one decimal below ten.
func micros(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func (r *Report) carrierTable() page.Section {
	return tableSection("carriers",
		"Carriers: median (least–most) of the rounds; times are p50 / p99 / p99.9 of one write when idle",
		[]string{"ratio", "carrier", "size", "Gbit/s", "k datagrams/s", "B each", "re-sent %", "CPU s/GB near + far",
			"write µs", "answered µs", "M pieces/s"},
		trial.RowsOf(r.Carriers, func(c *CarrierRow) []string {
			name := c.Carrier
			if !c.Encrypted {
				name += " (open)"
			}
			return []string{
				ratioText(c.Ratio), name, config.Bytes(c.Size).String(), c.Goodput.Text("%.2f", 1),
				c.DatagramRate.Text("%.0f", 1e-3), fmt.Sprintf("%.0f", c.BytesPerDatagram.Median),
				c.ResentShare.Text("%.3g", 100), c.NearCPU.Text("%.2f", 1) + " + " + c.FarCPU.Text("%.2f", 1),
				timesText(&c.WriteTimes), timesText(c.AnsweredTimes), orNone(c.PieceRate, "%.2f", 1e-6),
			}
		}))
}

func (r *Report) referenceTable() page.Section {
	return tableSection("references", "References, of the same rounds",
		[]string{"reference", "Gbit/s", "lost %", "CPU s/GB near + far", "trip µs", "barrier %", "what it is"},
		trial.RowsOf(r.References, func(f *ReferenceRow) []string {
			cpu := orNone(f.NearCPU, "%.2f", 1)
			if f.FarCPU != nil {
				cpu += " + " + f.FarCPU.Text("%.2f", 1)
			}
			return []string{
				f.Name, orNone(f.Goodput, "%.2f", 1), orNone(f.LostShare, "%.3g", 100), cpu, timesText(f.TripTimes),
				orNone(f.BarrierShare, "%.0f", 100), f.What,
			}
		}), 6)
}

func (r *Report) runTable() page.Section {
	return tableSection("runs", "Whole runs",
		[]string{"ratio", "run", "Gbit/s", "M events/s", "re-sent %", "CPU s/GB", "what it is"},
		trial.RowsOf(r.Runs, func(n *RunRow) []string {
			return []string{
				ratioText(n.Ratio), n.Name, n.Goodput.Text("%.2f", 1), n.EventRate.Text("%.3f", 1e-6),
				n.ResentShare.Text("%.3g", 100), n.CPU.Text("%.2f", 1), n.What,
			}
		}), 6)
}
