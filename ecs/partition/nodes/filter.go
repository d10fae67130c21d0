package nodes

import (
	"ringlet/ecs/figures"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Filter are the counts of the filter, by the last reports of the builder units.
type Filter struct {
	Filter           string  `json:"filter"`    // as configured
	ByRegion         bool    `json:"by_region"` // it judged regions of interest
	Accepted         uint64  `json:"accepted" sum:"bu.filter_accepted"`
	Rejected         uint64  `json:"rejected" sum:"bu.filter_rejected"`
	TimedOut         uint64  `json:"timed_out" sum:"bu.filter_timed_out"`             // events that passed since the filter did not answer in time
	Failed           uint64  `json:"failed" sum:"bu.filter_failed"`                   // events that passed since the filter could not judge them
	RejectedByRegion uint64  `json:"rejected_region" sum:"bu.filter_rejected_region"` // rejected by their region of interest, and therefore not built
	RejectedButKept  uint64  `json:"carried" sum:"bu.filter_carried"`                 // rejected, and kept since another event of their MEP is kept
	MeanUs           float64 `json:"mean_us"`                                         // mean time for one event
	MaxUs            uint64  `json:"max_us" sum:"bu.filter_longest_us"`
	HeldUs           uint64  `json:"held_us" sum:"bu.filter_held_us"` // time that built MEPs waited for a place in its queue, summed over builder units

	WaitUs     *Quantiles4      `json:"wait_us,omitempty"`   // from the last byte of an event until the filter had it
	InFilterUs *Quantiles4      `json:"in_us,omitempty"`     // how long the filter works on an event
	Processes  *FilterProcesses `json:"processes,omitempty"` // of a filter in processes
}

// FilterProcesses are the counts of filter processes and of their answers.
type FilterProcesses struct {
	Attached         uint64 `json:"came" sum:"bu.filter_processes_came"`
	Withdrawn        uint64 `json:"left" sum:"bu.filter_processes_left"`       // before the end of the run, in good order
	Crashed          uint64 `json:"crashed" sum:"bu.filter_processes_crashed"` // they died
	Hung             uint64 `json:"hung" sum:"bu.filter_processes_hung"`       // dismissed for not answering
	BrokenMemory     uint64 `json:"broken" sum:"bu.filter_processes_broken"`   // dismissed for invalid contents of their shared memory
	AnswersLate      uint64 `json:"late" sum:"bu.filter_answers_late"`         // answers that came too late
	AnswersDoubled   uint64 `json:"doubled" sum:"bu.filter_answers_doubled"`   // answers on events that had one
	AnswersUnasked   uint64 `json:"unasked" sum:"bu.filter_answers_unasked"`   // answers on events that the process did not have
	AnswersInvalid   uint64 `json:"invalid" sum:"bu.filter_answers_invalid"`   // answers that were no result of their event
	EventsUnattended uint64 `json:"unattended" sum:"bu.filter_unattended"`     // events that passed by time-out since no process took them
	EventsReassigned uint64 `json:"returned" sum:"bu.filter_returned"`         // events that were given to another process
}

// JudgedEvents is the number of events with a decision.
func (f *Filter) JudgedEvents() uint64 { return f.Accepted + f.Rejected + f.TimedOut + f.Failed }

// fillFilter fills in the filter's counts, if there is a filter.
func (r *Report) fillFilter(cfg *config.Completed, sums map[string]uint64, reports []*nodev1.Report) {
	if cfg.Filter == "" {
		return
	}
	f := &Filter{Filter: cfg.Filter, ByRegion: cfg.RegionJudged()}
	readCounters(f, sums, "")
	if n := f.JudgedEvents(); n > 0 {
		f.MeanUs = float64(countsOf(sums).FilterUs) / float64(n)
	}
	if h := figures.MergeHistograms(reports, node.HistogramFilterWait); h != nil {
		q := quantiles4(h)
		f.WaitUs = &q
	}
	if h := figures.MergeHistograms(reports, node.HistogramFilter); h != nil {
		q := quantiles4(h)
		f.InFilterUs = &q
	}
	if choice, ok := cfg.FilterChoice(); ok && choice.ProcessName() != "" {
		f.Processes = &FilterProcesses{}
		readCounters(f.Processes, sums, "")
	}
	r.Filter = f
}

// filterChecks compare the filter's decisions with the scheduler's counts: every built event has a decision, and every
// rejected one if the filter judges regions of interest.
func (r *Report) filterChecks() []Check {
	if r.Filter == nil {
		return nil
	}
	f := r.Filter
	if !f.ByRegion {
		return []Check{newCheck("events built = accepted + rejected + timed out + failed in the filter", r.EventsBuilt,
			f.JudgedEvents())}
	}
	return []Check{
		newCheck("events built = accepted + rejected + timed out + failed in the filter, without those rejected by "+
			"their region", r.EventsBuilt, f.JudgedEvents()-f.RejectedByRegion),
		newCheck("events rejected by their region, by the scheduler = by the filter", r.EventsRejected, f.RejectedByRegion),
	}
}

// Backlog are the counts of the second filter when the run ends: the segments that are left for it, and those that it
// had drained. Later the second filter reports by itself.
type Backlog struct {
	Bytes           uint64 `json:"bytes" sum:"bu.backlog_bytes"`
	SegmentsLeft    uint64 `json:"segments" sum:"bu.backlog_segments"`   // not drained
	OldestSegmentUs uint64 `json:"oldest_us" sum:"bu.backlog_oldest_us"` // age of the oldest of them
	HeldUs          uint64 `json:"held_us" sum:"bu.backlog_held_us"`     // time that events waited since it was full, summed over builder units
	SegmentsDrained uint64 `json:"drained" sum:"bu.backlog_drained"`     // segments
	Accepted        uint64 `json:"accepted" sum:"bu.backlog_accepted"`   // events, by the second filter
	Rejected        uint64 `json:"rejected" sum:"bu.backlog_rejected"`
	RejectedButKept uint64 `json:"rejected_kept" sum:"bu.backlog_carried"` // rejected, and kept since another event of their MEP is kept
	Passed          uint64 `json:"passed" sum:"bu.backlog_passed"`         // kept unjudged: time-out, failure, restart
	Copies          uint64 `json:"copies" sum:"bu.backlog_copies"`         // MEPs that were built twice, and judged once
	Damaged         uint64 `json:"damaged" sum:"bu.backlog_damaged"`
}

// fillBacklog fills in the counts of the backlog, if there is one.
func (r *Report) fillBacklog(cfg *config.Completed, sums map[string]uint64) {
	if cfg.DiskBacklog == 0 {
		return
	}
	r.Backlog = &Backlog{}
	readCounters(r.Backlog, sums, "")
}
