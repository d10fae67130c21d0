package apitest

import (
	"maps"
	"math"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// addFilterFigures adds the counters of a filter on the node, and on node n1 those of the decision unit. The caller
// holds mu.
func (f *Fake) addFilterFigures(node *ecsv1.NodeFigures, i int) {
	all := f.builtTicks * eventsPerTick
	judged := all / uint64(f.opt.Nodes)
	maps.Copy(node.Counters, map[string]uint64{
		"bu.filter_accepted": judged / 25, "bu.filter_rejected": judged - judged/25 - f.builtTicks/50,
		"bu.filter_timed_out": f.builtTicks / 50, "bu.filter_failed": 0, "bu.filter_us": judged * uint64(90+10*i),
		"bu.filter_longest_us": uint64(1200 + 700*i), "bu.filter_held_us": f.builtTicks * uint64(40*i), "bu.filter_stuck": 0,
	})
	if i != 1 {
		return
	}
	accepted, without := all/25, f.builtTicks/50*uint64(f.opt.Nodes)
	maps.Copy(node.Counters, map[string]uint64{
		"dec.events_triggered": all, "dec.decisions_accepted": accepted, "dec.decisions_timed_out": without,
		"dec.decisions_rejected": all - accepted - without, "dec.decisions_failed": 0, "dec.timed_out": without,
		"dec.pending": 130 + f.tick%40, "dec.depth": 1820, "dec.results_late": without,
	})
}

// latencySteps are made-up times of decisions after that many ticks of building.
func latencySteps(built uint64) (steps []*ecsv1.LatencyPart) {
	for i, name := range []string{"decision", "building", "judged", "ordering", "filter_wait", "filter"} {
		l := &ecsv1.Latency{}
		middle := []float64{10.5, 9.5, 7.5, 5, 4, 6}[i]
		for k := range 24 {
			n := uint64(float64(built) * 4000 * math.Exp(-math.Pow(float64(k)/1.5-middle, 2)/2))
			from, to := int64(math.Pow(2, float64(k)/1.5)), int64(math.Pow(2, float64(k+1)/1.5))
			if n == 0 || from == to {
				continue
			}
			l.Bars, l.MaxUs = append(l.Bars, &ecsv1.Bar{FromUs: from, ToUs: to, Count: n}), to
		}
		median := math.Pow(2, middle)
		l.P50Us, l.P99Us, l.P999Us = int64(median), int64(4*median), int64(6*median)
		steps = append(steps, &ecsv1.LatencyPart{Name: name, Latency: l})
	}
	return steps
}
