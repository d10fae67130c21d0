package nodes

import (
	"ringlet/ecs/figures"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Filter is what the filter said of the events that were built, as far as builder units have told.
type Filter struct {
	Filter           string  `json:"filter"`    // as configured
	ByRegion         bool    `json:"by_region"` // it judged regions of interest
	Accepted         uint64  `json:"accepted"`
	Rejected         uint64  `json:"rejected"`
	TimedOut         uint64  `json:"timed_out"`       // it did not answer in time, and they passed
	Failed           uint64  `json:"failed"`          // it could not judge them, and they passed
	RejectedByRegion uint64  `json:"rejected_region"` // of the rejected: by their region of interest, so that they were not built
	RejectedButKept  uint64  `json:"carried"`         // of the rejected: kept, since another event of their MEP is
	MeanUs           float64 `json:"mean_us"`         // of the time for one event
	MaxUs            uint64  `json:"max_us"`
	HeldUs           uint64  `json:"held_us"` // that built MEPs waited for a place before it, of all builder units

	WaitUs     *Quantiles4      `json:"wait_us,omitempty"`   // from the last byte of an event until the filter had it
	InFilterUs *Quantiles4      `json:"in_us,omitempty"`     // in the filter, for an event
	Processes  *FilterProcesses `json:"processes,omitempty"` // where these judge
}

// FilterProcesses is what became of filter processes, and of their answers.
type FilterProcesses struct {
	Attached         uint64 `json:"came"`
	Withdrawn        uint64 `json:"left"`       // before the end of the run, in good order
	Crashed          uint64 `json:"crashed"`    // they died
	Hung             uint64 `json:"hung"`       // dismissed for not answering
	BrokenMemory     uint64 `json:"broken"`     // dismissed for what stood in their memory
	AnswersLate      uint64 `json:"late"`       // answers that came too late
	AnswersDoubled   uint64 `json:"doubled"`    // answers on events that had one
	AnswersUnasked   uint64 `json:"unasked"`    // answers on events that the process did not have
	AnswersInvalid   uint64 `json:"invalid"`    // answers that were no result of their event
	EventsUnattended uint64 `json:"unattended"` // events that passed by time-out since no process took them
	EventsReassigned uint64 `json:"returned"`   // events that were given to another process
}

// JudgedEvents is the number of events with a decision.
func (f *Filter) JudgedEvents() uint64 { return f.Accepted + f.Rejected + f.TimedOut + f.Failed }

// fillFilter fills in what the builder units have told of the filter.
func (r *Report) fillFilter(cfg *config.Config, sums map[string]uint64, reports []*nodev1.Report) {
	if cfg.Filter == "" {
		return
	}
	f := &Filter{
		Filter:           cfg.Filter,
		ByRegion:         cfg.RegionJudged(),
		Accepted:         sums["bu.filter_accepted"],
		Rejected:         sums["bu.filter_rejected"],
		TimedOut:         sums["bu.filter_timed_out"],
		Failed:           sums["bu.filter_failed"],
		RejectedByRegion: sums["bu.filter_rejected_region"],
		RejectedButKept:  sums["bu.filter_carried"],
		MaxUs:            sums["bu.filter_longest_us"],
		HeldUs:           sums["bu.filter_held_us"],
	}
	if n := f.JudgedEvents(); n > 0 {
		f.MeanUs = float64(sums["bu.filter_us"]) / float64(n)
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
		f.Processes = &FilterProcesses{
			Attached:         sums["bu.filter_processes_came"],
			Withdrawn:        sums["bu.filter_processes_left"],
			Crashed:          sums["bu.filter_processes_crashed"],
			Hung:             sums["bu.filter_processes_hung"],
			BrokenMemory:     sums["bu.filter_processes_broken"],
			AnswersLate:      sums["bu.filter_answers_late"],
			AnswersDoubled:   sums["bu.filter_answers_doubled"],
			AnswersUnasked:   sums["bu.filter_answers_unasked"],
			AnswersInvalid:   sums["bu.filter_answers_invalid"],
			EventsUnattended: sums["bu.filter_unattended"],
			EventsReassigned: sums["bu.filter_returned"],
		}
	}
	r.Filter = f
}

// filterChecks holds the decisions against the scheduler's accounts: every event that was built has one, and every
// event that was rejected, if the filter judged its region of interest.
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

// Backlog is what is left for a second filter when the run ends, and what that had done by then. What it does later it
// says itself.
type Backlog struct {
	Bytes           uint64 `json:"bytes"`
	SegmentsLeft    uint64 `json:"segments"`  // not drained
	OldestSegmentUs uint64 `json:"oldest_us"` // age of the oldest of them
	HeldUs          uint64 `json:"held_us"`   // that events waited since it was full, of all builder units
	SegmentsDrained uint64 `json:"drained"`   // segments
	Accepted        uint64 `json:"accepted"`  // events, by the second filter
	Rejected        uint64 `json:"rejected"`
	RejectedButKept uint64 `json:"rejected_kept"` // of the rejected ones: kept since another event of their MEP was
	Passed          uint64 `json:"passed"`        // by time-out, failed, or found when it was started again
	Copies          uint64 `json:"copies"`        // built twice and judged once
	Damaged         uint64 `json:"damaged"`
}

// fillBacklog fills in what the builder units have told of the backlog.
func (r *Report) fillBacklog(cfg *config.Config, sums map[string]uint64) {
	if cfg.DiskBacklog == 0 {
		return
	}
	r.Backlog = &Backlog{
		Bytes:           sums["bu.backlog_bytes"],
		SegmentsLeft:    sums["bu.backlog_segments"],
		OldestSegmentUs: sums["bu.backlog_oldest_us"],
		HeldUs:          sums["bu.backlog_held_us"],
		SegmentsDrained: sums["bu.backlog_drained"],
		Accepted:        sums["bu.backlog_accepted"],
		Rejected:        sums["bu.backlog_rejected"],
		RejectedButKept: sums["bu.backlog_carried"],
		Passed:          sums["bu.backlog_passed"],
		Copies:          sums["bu.backlog_copies"],
		Damaged:         sums["bu.backlog_damaged"],
	}
}
