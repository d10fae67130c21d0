package sweep

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// column is one of results.csv. docs/benchmarking.md says what each means.
type column struct {
	name string
	get  func(*measured) string
}

var columns = []column{
	{"series", func(m *measured) string { return m.Series }},
	{"round", func(m *measured) string { return strconv.Itoa(m.Round) }},
	{"started", func(m *measured) string { return m.Started.UTC().Format(time.RFC3339) }},
	{"nodes", count(func(m *measured) int { return m.Setup.Nodes })},
	{"n_ru", count(func(m *measured) int { return m.Setup.RUs })},
	{"n_bu", count(func(m *measured) int { return m.Setup.BUs })},
	{"hosts", count(func(m *measured) int { return m.Setup.Hosts })},
	{"streams", count(func(m *measured) int { return m.Setup.Streams })},
	{"fragment_mean_b", known(2, func(m *measured) float64 { return m.Setup.FragmentMean })},
	{"fragment_sigma_b", number(2, func(m *measured) float64 { return m.Setup.FragmentSigma })},
	{"packing", count(func(m *measured) int { return m.Setup.Packing })},
	{"slots", count(func(m *measured) int { return m.Setup.Slots })},
	{"credits", known(0, func(m *measured) float64 { return float64(m.Setup.Credits) })},
	{"discipline", func(m *measured) string { return m.Setup.Discipline }},
	{"barrier", func(m *measured) string { return m.Setup.Barrier }},
	{"transport", func(m *measured) string { return m.Setup.Transport }},
	{"loss", number(6, func(m *measured) float64 { return m.Setup.Loss })},
	{"load", known(4, func(m *measured) float64 { return m.Setup.Load })},
	{"port_gbps", known(6, func(m *measured) float64 { return m.Setup.Port / 1e9 })},
	{"offered_gbps", known(6, (*measured).offeredGbps)},
	{"built_gbps", result(6, func(m *measured) float64 { return m.out.Gbps })},
	{"port_built_gbps", result(6, (*measured).portGbps)},
	{"efficiency", known(4, func(m *measured) float64 { return m.efficiency(false) })},
	{"efficiency_all", known(4, func(m *measured) float64 { return m.efficiency(true) })},
	{"event_rate_hz", result(1, func(m *measured) float64 { return m.out.EventRate })},
	{"events_built", tally(func(o *outcome) uint64 { return o.Built })},
	{"events_incomplete", tally(func(o *outcome) uint64 { return o.Incomplete })},
	{"events_discarded", tally(func(o *outcome) uint64 { return o.Discarded })},
	{"events_rejected", tally(func(o *outcome) uint64 { return o.Rejected })},
	{"chunks_sent", tally(func(o *outcome) uint64 { return o.ChunksSent })},
	{"chunks_late", tally(func(o *outcome) uint64 { return o.ChunksLate })},
	{"chunks_duplicate", tally(func(o *outcome) uint64 { return o.ChunksDuplicate })},
	{"chunks_resent", tally(func(o *outcome) uint64 { return o.ChunksResent })},
	{"resent_share", result(6, (*measured).resentShare)},
	{"switch_dropped_share", had(6, func(m *measured) (float64, bool) { return m.out.dropped() })},
	{"builder_min_hz", had(1, func(m *measured) (float64, bool) { b, ok := m.out.builders(); return b.Min, ok })},
	{"builder_p50_hz", had(1, func(m *measured) (float64, bool) { b, ok := m.out.builders(); return b.Median, ok })},
	{"builder_max_hz", had(1, func(m *measured) (float64, bool) { b, ok := m.out.builders(); return b.Max, ok })},
	{"latency_p50_us", result(0, func(m *measured) float64 { return m.out.Latency.P50 })},
	{"latency_p99_us", result(0, func(m *measured) float64 { return m.out.Latency.P99 })},
	{"latency_p999_us", result(0, func(m *measured) float64 { return m.out.Latency.P999 })},
	{"latency_max_us", result(0, func(m *measured) float64 { return m.out.Latency.Max })},
	{"barrier_p50_us", result(0, func(m *measured) float64 { return m.out.BarrierUs.P50 })},
	{"barrier_p99_us", result(0, func(m *measured) float64 { return m.out.BarrierUs.P99 })},
	{"barrier_max_us", result(0, func(m *measured) float64 { return m.out.BarrierUs.Max })},
	{"barrier_share", result(4, func(m *measured) float64 { return m.out.BarrierShare })},
	{"skew_p50_us", result(0, func(m *measured) float64 { return m.out.Skew.P50 })},
	{"skew_p99_us", result(0, func(m *measured) float64 { return m.out.Skew.P99 })},
	{"skew_max_us", result(0, func(m *measured) float64 { return m.out.Skew.Max })},
	{"cpu_s_per_gb", result(3, func(m *measured) float64 { return m.out.CPU })},
	{"duration_s", result(3, func(m *measured) float64 { return m.out.DurationS })},
	{"accounts_ok", func(m *measured) string { return strconv.FormatBool(m.out.Accounts) }},
	{"exit_code", func(m *measured) string { return strconv.Itoa(m.ExitCode) }},
	{"error", func(m *measured) string { return m.Error }},
}

// Columns lists the names of those that results.csv always has. Behind them stand the settings that the sweep varies,
// by their own names, and the counters that were not 0 in some run, by theirs.
func Columns() []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.name)
	}
	return out
}

func count(get func(*measured) int) func(*measured) string {
	return func(m *measured) string { return strconv.Itoa(get(m)) }
}

// number writes a figure of the set-up, and result one of the outcome, which is empty where there is none.
func number(digits int, get func(*measured) float64) func(*measured) string {
	return func(m *measured) string { return trimmed(get(m), digits) }
}

func result(digits int, get func(*measured) float64) func(*measured) string {
	return func(m *measured) string {
		if m.Error != "" {
			return ""
		}
		return trimmed(get(m), digits)
	}
}

// known leaves empty what is zero because it is not known or was not asked for.
func known(digits int, get func(*measured) float64) func(*measured) string {
	return func(m *measured) string {
		if v := get(m); v != 0 {
			return trimmed(v, digits)
		}
		return ""
	}
}

// had leaves empty what this run's report has not.
func had(digits int, get func(*measured) (float64, bool)) func(*measured) string {
	return func(m *measured) string {
		if v, ok := get(m); ok {
			return trimmed(v, digits)
		}
		return ""
	}
}

func tally(get func(*outcome) uint64) func(*measured) string {
	return func(m *measured) string {
		if m.Error != "" {
			return ""
		}
		return strconv.FormatUint(get(&m.out), 10)
	}
}

// trimmed writes a number with at most so many digits behind the point.
func trimmed(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// countersOf names the counters that were not 0 in some run.
func countersOf(runs []*measured) []string {
	names := map[string]bool{}
	for _, m := range runs {
		for name, v := range m.out.counters() {
			names[name] = names[name] || v > 0
		}
	}
	maps.DeleteFunc(names, func(_ string, counted bool) bool { return !counted })
	return slices.Sorted(maps.Keys(names))
}

// writeCSV writes a line a run, failed ones with their sentence and without figures, in the order in which they were
// run.
func writeCSV(w io.Writer, r *Results) error {
	var varied []string
	for i := range r.Runs {
		for _, v := range r.Runs[i].Varied {
			if !slices.Contains(varied, v.Key) && !slices.Contains(Columns(), v.Key) {
				varied = append(varied, v.Key)
			}
		}
	}
	good, failed := r.read()
	rows := good
	for _, rec := range failed {
		rows = append(rows, &measured{record: rec})
	}
	slices.SortStableFunc(rows, func(a, b *measured) int { return a.Started.Compare(b.Started) })
	counters := countersOf(good)
	out := csv.NewWriter(w)
	if err := out.Write(slices.Concat(Columns(), varied, counters)); err != nil {
		return err
	}
	for _, m := range rows {
		var line []string
		for _, c := range columns {
			line = append(line, c.get(m))
		}
		for _, key := range varied {
			line = append(line, m.value(key))
		}
		sums := m.out.counters()
		for _, name := range counters {
			line = append(line, tally(func(*outcome) uint64 { return sums[name] })(m))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
