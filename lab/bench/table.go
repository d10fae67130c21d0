package bench

import (
	"fmt"
	"io"
	"time"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// WriteTable prints the report for people: figures and ratios first, then the targets and what stood in the way.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d of %d rounds, %s each, %d cores, %d at a time per process, spin %s, memory %s\n", r.RoundsDone,
		r.Rounds,
		time.Duration(r.DurationS*float64(time.Second)), r.Cores, r.Procs, time.Duration(r.SpinUs)*time.Microsecond,
		config.Bytes(r.Memory))
	if r.Peer != "" {
		fmt.Fprintf(w, "between this machine and %s\n", r.Peer)
	}
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is of the rounds so far")
	}
	for _, part := range []func(io.Writer, *Report) error{writeCarriers, writeReferences, writeRuns, writeTargets} {
		if err := part(w, r); err != nil {
			return err
		}
	}
	list(w, "What binds on this machine", len(r.Limits), func(i int) string {
		l := r.Limits[i]
		return fmt.Sprintf("%s (%s): %s. %s", l.Limit, l.Host, l.Wrong, l.Do)
	})
	list(w, "Left out", len(r.LeftOut), func(i int) string { return r.LeftOut[i] })
	list(w, "FAILED", len(r.Failed), func(i int) string { return r.Failed[i] })
	return nil
}

func list(w io.Writer, title string, n int, line func(int) string) {
	if n == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for i := range n {
		fmt.Fprintf(w, "  %s\n", line(i))
	}
}

func orNone(s *trial.Spread, format string, scale float64) string {
	if s == nil {
		return trial.None
	}
	return s.Text(format, scale)
}

func ratioText(r *trial.Ratio) string {
	if r == nil {
		return trial.None
	}
	return r.Text("%.2f", 1) + " × " + r.To
}

// timesText writes quantiles; t may be nil.
func timesText(t *trial.Times) string {
	if t == nil {
		return trial.None
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

func writeCarriers(w io.Writer, r *Report) error {
	var rows [][]string
	for _, c := range r.Carriers {
		name := c.Carrier
		if !c.Encrypted {
			name += " (open)"
		}
		rows = append(rows, []string{
			ratioText(c.Ratio), name, config.Bytes(c.Size).String(), c.Goodput.Text("%.2f", 1), c.Datagrams.Text("%.0f", 1e-3),
			fmt.Sprintf("%.0f", c.Each.Median), c.Resent.Text("%.3g", 100),
			c.NearCPU.Text("%.2f", 1) + " + " + c.FarCPU.Text("%.2f", 1), timesText(&c.Write), timesText(c.Answered),
			orNone(c.Pieces, "%.2f", 1e-6),
		})
	}
	return trial.Table(w, "Carriers: median (least–most) of the rounds; times are p50 / p99 / p99.9 of one write when idle",
		[]string{"ratio", "carrier", "size", "Gbit/s", "k datagrams/s", "B each", "re-sent %", "CPU s/GB near + far",
			"write µs", "answered µs", "M pieces/s"}, rows)
}

func writeReferences(w io.Writer, r *Report) error {
	var rows [][]string
	for _, f := range r.References {
		cpu := orNone(f.NearCPU, "%.2f", 1)
		if f.FarCPU != nil {
			cpu += " + " + f.FarCPU.Text("%.2f", 1)
		}
		rows = append(rows, []string{
			f.Name, orNone(f.Goodput, "%.2f", 1), orNone(f.Lost, "%.3g", 100), cpu, timesText(f.Trip),
			orNone(f.Barrier, "%.0f", 100), f.What,
		})
	}
	return trial.Table(w, "References, of the same rounds",
		[]string{"reference", "Gbit/s", "lost %", "CPU s/GB near + far", "trip µs", "barrier %", "what it is"}, rows)
}

func writeRuns(w io.Writer, r *Report) error {
	var rows [][]string
	for _, n := range r.Runs {
		rows = append(rows, []string{
			ratioText(n.Ratio), n.Name, n.Goodput.Text("%.2f", 1), n.Events.Text("%.3f", 1e-6), n.Resent.Text("%.3g", 100),
			n.CPU.Text("%.2f", 1), n.What,
		})
	}
	return trial.Table(w, "Whole runs", []string{"ratio", "run", "Gbit/s", "M events/s", "re-sent %", "CPU s/GB",
		"what it is"}, rows)
}

func writeTargets(w io.Writer, r *Report) error {
	return trial.Table(w, "Targets, set for a machine of 2 cores and judged by medians", trial.VerdictHead,
		trial.VerdictRows(r.Targets))
}
