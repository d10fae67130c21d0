package sweep

import (
	"cmp"
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ringlet/lab/trial"
)

// column is a column of results.csv. docs/benchmarks.md explains each.
type column struct {
	name   string
	figure string // of the report or of the set-up; "" = derived from them, named as the column
	digits int    // behind the point, at most
	text   func(*measuredRun) string
}

var columns = []column{
	{"series", "", 0, func(m *measuredRun) string { return m.Series }},
	{"round", "", 0, func(m *measuredRun) string { return strconv.Itoa(m.Round) }},
	{"started", "", 0, func(m *measuredRun) string { return m.Started.UTC().Format(time.RFC3339) }},
	{"nodes", "setup.nodes", 0, nil},
	{"n_ru", "setup.rus", 0, nil},
	{"n_bu", "setup.bus", 0, nil},
	{"hosts", "setup.hosts", 0, nil},
	{"streams", "setup.streams", 0, nil},
	{"fragment_mean_b", "setup.fragment_mean", 2, nil},
	{"fragment_sigma_b", "setup.fragment_sigma", 2, nil},
	{"packing", "setup.packing", 0, nil},
	{"slots", "setup.slots", 0, nil},
	{"credits", "setup.credits", 0, nil},
	{"discipline", "", 0, func(m *measuredRun) string { return m.Setup.Discipline }},
	{"barrier", "", 0, func(m *measuredRun) string { return m.Setup.Barrier }},
	{"transport", "", 0, func(m *measuredRun) string { return m.Setup.Transport }},
	{"loss", "setup.loss", 6, nil},
	{"load", "setup.load", 4, nil},
	{"port_gbps", "", 6, nil},
	{"offered_gbps", "", 6, nil},
	{"built_gbps", "goodput_gbps", 6, nil},
	{"port_built_gbps", "", 6, nil},
	{"efficiency", "", 4, nil},
	{"efficiency_all", "", 4, nil},
	{"event_rate_hz", "event_rate_hz", 1, nil},
	{"events_built", "events_built", 0, nil},
	{"events_discarded", "events_discarded", 0, nil},
	{"events_rejected", "events_rejected", 0, nil},
	{"chunks_sent", "chunks_sent", 0, nil},
	{"chunks_late", "chunks_late", 0, nil},
	{"chunks_duplicate", "chunks_duplicate", 0, nil},
	{"chunks_resent", "chunks_resent", 0, nil},
	{"resent_share", "", 6, nil},
	{"switch_dropped_share", "", 6, nil},
	{"builder_min_hz", "", 1, nil},
	{"builder_p50_hz", "", 1, nil},
	{"builder_max_hz", "", 1, nil},
	{"latency_p50_us", "build_latency_us.p50", 0, nil},
	{"latency_p99_us", "build_latency_us.p99", 0, nil},
	{"latency_p999_us", "build_latency_us.p999", 0, nil},
	{"latency_max_us", "build_latency_us.max", 0, nil},
	{"barrier_p50_us", "barrier_us.p50", 0, nil},
	{"barrier_p99_us", "barrier_us.p99", 0, nil},
	{"barrier_max_us", "barrier_us.max", 0, nil},
	{"barrier_share", "barrier_share", 4, nil},
	{"skew_p50_us", "phase_skew_us.p50", 0, nil},
	{"skew_p99_us", "phase_skew_us.p99", 0, nil},
	{"skew_max_us", "phase_skew_us.max", 0, nil},
	{"cpu_s_per_gb", "cpu_s_per_gb", 3, nil},
	{"duration_s", "duration_s", 3, nil},
	{"accounts_ok", "", 0, func(m *measuredRun) string { return strconv.FormatBool(m.report.AccountsOK) }},
	{"exit_code", "", 0, func(m *measuredRun) string { return strconv.Itoa(m.ExitCode) }},
	{"error", "", 0, func(m *measuredRun) string { return m.Error }},
}

// format formats the run's value; it is empty if the run has none.
func (c *column) format(m *measuredRun) string {
	if c.text != nil {
		return c.text(m)
	}
	if v, ok := m.figures[cmp.Or(c.figure, c.name)]; ok {
		return trial.Trimmed(v, c.digits)
	}
	return ""
}

// reportedFigures lists the figures of a run's report that a sweep uses.
var reportedFigures = sync.OnceValue(func() []string {
	out := []string{"events_triggered"}
	for _, c := range columns {
		if c.figure != "" && !strings.HasPrefix(c.figure, "setup.") {
			out = append(out, c.figure)
		}
	}
	return out
})

// Columns lists the columns that every results.csv has. Behind them are the settings that the sweep varies, and the
// counters that were not 0 in some run, each by its own name.
func Columns() []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.name)
	}
	return out
}

// nonZeroCounters names the counters that were not 0 in some run.
func nonZeroCounters(runs []*measuredRun) []string {
	names := map[string]bool{}
	for _, m := range runs {
		for name, v := range m.report.counters() {
			names[name] = names[name] || v > 0
		}
	}
	maps.DeleteFunc(names, func(_ string, counted bool) bool { return !counted })
	return slices.Sorted(maps.Keys(names))
}

// writeCSV writes a line for each run in the order in which they ran; a failed run has its error and no figures.
func writeCSV(w io.Writer, r *results) error {
	var varied []string
	for i := range r.Runs {
		for _, v := range r.Runs[i].Varied {
			if !slices.Contains(varied, v.Key) && !slices.Contains(Columns(), v.Key) {
				varied = append(varied, v.Key)
			}
		}
	}
	good, failed := r.splitRuns()
	rows := good
	for _, rec := range failed {
		m, _ := parseRun(rec)
		rows = append(rows, m)
	}
	slices.SortStableFunc(rows, func(a, b *measuredRun) int { return a.Started.Compare(b.Started) })
	counters := nonZeroCounters(good)
	out := csv.NewWriter(w)
	if err := out.Write(slices.Concat(Columns(), varied, counters)); err != nil {
		return err
	}
	for _, m := range rows {
		var line []string
		for i := range columns {
			line = append(line, columns[i].format(m))
		}
		for _, key := range varied {
			text, _ := findValue(key, m.Varied, m.Fixed)
			line = append(line, text)
		}
		sums := m.report.counters()
		for _, name := range counters {
			if m.Error != "" {
				line = append(line, "")
				continue
			}
			line = append(line, strconv.FormatUint(sums[name], 10))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
