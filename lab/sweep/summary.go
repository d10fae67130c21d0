package sweep

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// group is all repetitions of one combination.
type group struct {
	cell   string // its ID
	series string
	varied []Value
	setup  setup
	runs   []*measuredRun // in the order of their rounds; at least one
	failed int
}

// groups collects the runs of each combination, sorted by series and values.
func groups(good []*measuredRun, failed []*runLine) []*group {
	at := map[string]*group{}
	var out []*group
	of := func(rec *runLine) *group {
		g := at[rec.Cell]
		if g == nil {
			g = &group{cell: rec.Cell, series: rec.Series, varied: rec.Varied, setup: rec.Setup}
			at[rec.Cell] = g
			out = append(out, g)
		}
		return g
	}
	for _, m := range good {
		g := of(m.runLine)
		g.runs = append(g.runs, m)
	}
	for _, rec := range failed {
		of(rec).failed++
	}
	for _, g := range out {
		slices.SortFunc(g.runs, func(a, b *measuredRun) int { return a.Round - b.Round })
	}
	return out
}

// sortGroups sorts groups in the order of the sweep's cells.
func sortGroups(all []*group, cells []string) {
	place := map[string]int{}
	for i, id := range cells {
		place[id] = i
	}
	slices.SortStableFunc(all, func(a, b *group) int { return place[a.cell] - place[b.cell] })
}

// spreadOf is the spread of a metric, in its unit, over the repetitions that have it.
func (g *group) spreadOf(x metric) (trial.Spread, bool) {
	var v []float64
	for _, m := range g.runs {
		if f, ok := x.value(m); ok {
			v = append(v, f)
		}
	}
	return trial.SpreadOf(v).Scaled(x.scale), len(v) > 0
}

// numberOf parses a setting's text as a number for an axis, and returns its unit.
func numberOf(key, text string) (v float64, unit string, ok bool) {
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		return float64(d) / float64(time.Millisecond), "ms", true
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v, unitByKey[key], true
	}
	if b, err := config.ParseBytes(text); err == nil {
		return float64(b), "bytes", true
	}
	return 0, "", false
}

// unitByKey has the units of settings whose values are plain numbers.
var unitByKey = map[string]string{"fragment-size": "bytes", "packing": "events", "rate": "events/s",
	"load":       "of a port",
	"debug.drop": "of all datagrams"}

// axisKeys lists the settings that may be the x-axis, the best first: the size of the system, the demand on it, the
// disturbances. Other settings follow in the order of the file.
var axisKeys = []string{"nodes", "rus", "bus", keyLoad, "rate", "debug.suspend-for", "debug.drop", "fragment-size",
	"packing", "slots"}

// chooseAxis picks the x-axis of a series: of the settings that it varies over numbers the first by rank, or "".
func chooseAxis(all []*group) string {
	var keys []string
	for _, v := range all[0].varied {
		keys = append(keys, v.Key)
	}
	rank := func(key string) int {
		if i := slices.Index(axisKeys, key); i >= 0 {
			return i
		}
		return len(axisKeys)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	for _, key := range keys {
		var different []string
		numbers := true
		for _, g := range all {
			text, _ := findValue(key, g.varied)
			_, _, ok := numberOf(key, text)
			numbers = numbers && ok
			if !slices.Contains(different, text) {
				different = append(different, text)
			}
		}
		if numbers && len(different) > 1 {
			return key
		}
	}
	return ""
}

// switches are values that mean nothing without their keys.
var switches = []string{"true", "false", "on", "off", "none"}

// label names a combination by the settings that differ besides the axis: words alone, numbers with their keys.
func label(g *group, axis string, withSeries bool) string {
	var labels []string
	if withSeries {
		labels = append(labels, g.series)
	}
	for _, v := range g.varied {
		if v.Key == axis {
			continue
		}
		if _, _, isNumber := numberOf(v.Key, v.Text); isNumber || slices.Contains(switches, v.Text) {
			labels = append(labels, strings.TrimPrefix(v.Key, "debug.")+" "+v.Text)
		} else {
			labels = append(labels, v.Text)
		}
	}
	return cmp.Or(strings.Join(labels, ", "), g.series)
}

// spansDecades says whether numbers need a logarithmic axis.
func spansDecades(v []float64) bool {
	const far = 6 // 2, 4, 8, 16, 32 get equal steps then; 1 to 5 stay linear
	least, most := math.Inf(1), 0.0
	for _, x := range v {
		if x > 0 {
			least, most = min(least, x), max(most, x)
		}
	}
	return most > far*least
}

// axisPosition is the position of a number on an axis: the number, or its logarithm; on a logarithmic axis zero gets a
// position of its own before the least.
func axisPosition(v float64, all []float64) float64 {
	if !spansDecades(all) {
		return v
	}
	if v > 0 {
		return math.Log2(v)
	}
	least := math.Inf(1)
	for _, x := range all {
		if x > 0 {
			least = min(least, x)
		}
	}
	return math.Log2(least) - 1.5
}
