package figures

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/internal/counter"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// Histogram is the histogram of a name in a report; nil if there is none that can be decoded.
func Histogram(rep *nodev1.Report, name string) *hdr.Histogram {
	b := rep.GetHistograms()[name]
	if len(b) == 0 {
		return nil
	}
	h, err := hdr.Decode(b)
	if err != nil {
		return nil
	}
	return h
}

// MergeHistograms merges the histograms of a name in all reports; nil if none has it.
func MergeHistograms(reports []*nodev1.Report, name string) (sum *hdr.Histogram) {
	for _, rep := range reports {
		h := Histogram(rep, name)
		switch {
		case h == nil:
		case sum == nil:
			sum = h
		default:
			sum.Merge(h)
		}
	}
	return sum
}

// BarrierHolder is a readout unit that was the last to enter the barrier in some epochs.
type BarrierHolder struct {
	RU     int
	LateUs *hdr.Histogram // µs after the last but one, for each of these epochs
}

// BarrierHolders are the barrier holders by the reports, the most frequent first.
func BarrierHolders(reports []*nodev1.Report) []BarrierHolder {
	var out []BarrierHolder
	for _, rep := range reports {
		for name := range rep.GetHistograms() {
			index, held := strings.CutPrefix(name, node.HistogramHeld)
			if !held {
				continue
			}
			ru, err := strconv.Atoi(index)
			if h := Histogram(rep, name); err == nil && h != nil {
				out = append(out, BarrierHolder{RU: ru, LateUs: h})
			}
		}
	}
	slices.SortFunc(out, func(a, b BarrierHolder) int {
		return cmp.Or(cmp.Compare(b.LateUs.TotalCount(), a.LateUs.TotalCount()), cmp.Compare(a.RU, b.RU))
	})
	return out
}

// SumMissing adds up the MEPs and events that lack the fragments of readout units that were gone, by the builder units'
// reports, in the order of the readout units' indices.
func SumMissing(reports []*nodev1.Report) (all []*nodev1.Missing) {
	for _, rep := range reports {
		for _, m := range rep.GetMissing() {
			i, found := slices.BinarySearchFunc(all, m.GetRuIndex(), func(a *nodev1.Missing, ru uint32) int {
				return cmp.Compare(a.GetRuIndex(), ru)
			})
			if !found {
				all = slices.Insert(all, i, &nodev1.Missing{
					RuIndex:  m.GetRuIndex(),
					FirstMep: m.GetFirstMep(),
				})
			}
			sum := all[i]
			sum.Meps, sum.Events = sum.GetMeps()+m.GetMeps(), sum.GetEvents()+m.GetEvents()
			sum.FirstMep, sum.LastMep = min(sum.GetFirstMep(), m.GetFirstMep()), max(sum.GetLastMep(), m.GetLastMep())
		}
	}
	return all
}

// SchedulerCounters describes the scheduler's counters in a snapshot.
func SchedulerCounters() counter.List { return core.CounterList() }

// SumCounters adds up the counters of all reports by name, in the way of each counter's kind.
func SumCounters(reports []*nodev1.Report) map[string]uint64 {
	sums := map[string]uint64{}
	for _, rep := range reports {
		node.Counters().AddReport(sums, rep.GetCounters())
	}
	return sums
}
