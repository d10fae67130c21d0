package nodes

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/ecs/figures"
	"ringlet/ecs/partition/fault"
	ecsrun "ringlet/ecs/run"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/tagnet/core"
)

// Report is the result of a run, as `ringlet run --json` prints it. docs/report.md says what each field means.
type Report struct {
	Version      string `json:"version"`
	Run          uint32 `json:"run"`
	Started      string `json:"started,omitempty"` // RFC 3339; empty if the run never began
	Nodes        int    `json:"nodes"`
	RUs          int    `json:"rus"`
	BUs          int    `json:"bus"`
	Transport    string `json:"transport"`
	Network      string `json:"network,omitempty"` // carrier between hosts, if links within a host have another one
	Discipline   string `json:"discipline"`
	PhaseEnd     string `json:"phase_end"` // what ends a phase of the shift
	Barrier      string `json:"barrier"`
	Packing      int    `json:"packing"`
	SourcesPerRU int    `json:"streams"`            // sources of each readout unit; 0 if their numbers differ
	Division     []int  `json:"division,omitempty"` // sources of each readout unit; only if their numbers differ

	Links map[string]uint64 `json:"links"` // by the carrier in effect

	DurationS float64 `json:"duration_s"` // first token to last MEP; with live sources, or after a fault: of the whole run
	EventsS   float64 `json:"events_s"`   // first token to last MEP, of any run
	WallS     float64 `json:"wall_s"`     // from the start until the report was made
	RateS     float64 `json:"rate_s"`     // the time that rates divide by: see rateDuration

	EventsTriggered uint64 `json:"events_triggered"` // tokens were given for them
	EventsBuilt     uint64 `json:"events_built"`
	EventsDiscarded uint64 `json:"events_discarded"`
	EventsRejected  uint64 `json:"events_rejected"`
	EventsAbandoned uint64 `json:"events_abandoned"`
	MEPsBuilt       uint64 `json:"meps_built"`
	MFPsRead        uint64 `json:"mfps_read" sum:"ru.mfps_read"`
	MFPsPlaced      uint64 `json:"mfps_placed" sum:"bu.mfps_placed"`     // in complete MEPs
	MFPsRejected    uint64 `json:"mfps_rejected" sum:"bu.mfps_rejected"` // in rejected MEPs: placed before the rejection
	MFPsUnasked     uint64 `json:"mfps_unasked" sum:"bu.mfps_unasked"`   // in rejected MEPs: never asked for
	BytesSpared     uint64 `json:"bytes_spared" sum:"bu.bytes_spared"`   // of MFPsUnasked
	MFPsAbandoned   uint64 `json:"mfps_abandoned"`                       // read ahead of the last token, or without an outcome
	BytesBuilt      uint64 `json:"bytes_built" sum:"bu.bytes_built"`

	GoodputGbps float64 `json:"goodput_gbps"`
	EventRateHz float64 `json:"event_rate_hz"`

	ChunksSent       uint64 `json:"chunks_sent" sum:"link.chunks_sent"` // with retransmissions
	ChunksPlaced     uint64 `json:"chunks_placed" sum:"link.chunks_placed"`
	ChunksDuplicate  uint64 `json:"chunks_duplicate" sum:"link.chunks_duplicate"`
	ChunksLate       uint64 `json:"chunks_late" sum:"link.chunks_late"`
	ChunksRefused    uint64 `json:"chunks_refused" sum:"link.chunks_refused"`
	ChunksLost       uint64 `json:"chunks_lost"` // retransmitted, and only one copy arrived
	ChunksResent     uint64 `json:"chunks_resent" sum:"link.chunks_resent"`
	DatagramsSent    uint64 `json:"datagrams_sent" sum:"link.datagrams_sent"`
	DatagramsDropped uint64 `json:"datagrams_dropped" sum:"link.datagrams_dropped"` // on purpose, by --debug-drop

	BarrierShare   float64         `json:"barrier_share"` // of the readout units' time
	BarrierUs      Quantiles3      `json:"barrier_us"`
	PhaseSkewUs    Quantiles3      `json:"phase_skew_us"`                      // from the first readout unit in the barrier to the last, per epoch
	BusyTimes      uint64          `json:"busy_times,omitempty" sum:"ru.busy"` // that a readout unit with live sources became busy
	DeadUs         uint64          `json:"dead_us,omitempty" sum:"ru.dead_us"` // sum of the units; by cause below, which may hold together
	DeadBuildersUs uint64          `json:"dead_builders_us,omitempty" sum:"ru.dead_builders_us"`
	DeadIntakeUs   uint64          `json:"dead_intake_us,omitempty" sum:"ru.dead_intake_us"`
	DeadFrontEndUs uint64          `json:"dead_front_end_us,omitempty" sum:"ru.dead_front_end_us"`
	BarrierHolders []BarrierHolder `json:"holders"`          // in the order of the number of epochs, highest first
	LatencyUs      Quantiles4      `json:"build_latency_us"` // token issued to MEP complete

	Builders []BuilderShare `json:"builders"`          // in the order of the view
	Sources  []SourceReport `json:"sources,omitempty"` // live ones, in the order of their ids

	Drifts         []Drift `json:"drifts,omitempty"`          // live sources that were apart from others, oldest first
	Slips          uint64  `json:"slips,omitempty"`           // how often a live source moved against the others
	EventsCompared uint64  `json:"events_compared,omitempty"` // events whose live sources were compared

	Decisions *Decisions `json:"decisions,omitempty"` // nil: there is no decision unit
	HostTimes *HostTimes `json:"hosts,omitempty"`     // nil: packets had no kernel time stamps

	CPUSeconds      float64 `json:"cpu_s"` // of the nodes
	CPUSecondsPerGB float64 `json:"cpu_s_per_gb"`
	MaxRSSMB        float64 `json:"max_rss_mb"` // sum of the nodes' maxima

	VerdictName   string           `json:"verdict"`               // GOOD, DEGRADED, INCOMPLETE or ABORTED
	VerdictReason string           `json:"verdict_why,omitempty"` // a sentence; empty where nothing was lost
	Losses        []recording.Loss `json:"losses,omitempty"`      // with the setting that allowed each

	OnMissing       string   `json:"on_missing,omitempty"`       // of live sources
	TolerateMissing string   `json:"tolerate_missing,omitempty"` // of live sources, if it is not 0
	Unreported      []string `json:"unreported,omitempty"`       // nodes that were lost before their final report

	Degraded         bool                    `json:"degraded"`                                       // a unit was lost or excluded during the run
	FirstLoss        *fault.Fault            `json:"first_loss,omitempty"`                           // the first tolerated loss of a node
	InactiveBuilders []string                `json:"without,omitempty"`                              // nodes whose builder unit took no MEPs in the end
	Leavers          []string                `json:"leavers,omitempty"`                              // nodes that were told to end
	UnitOutages      []recording.UnitOutages `json:"lacking,omitempty"`                              // readout units that were gone for a time, and what is missing
	EventsMarked     uint64                  `json:"events_marked,omitempty" sum:"bu.events_marked"` // built with missing fragments
	GivenUp          bool                    `json:"given_up"`                                       // the MEPs under way were dropped
	AccountingOK     bool                    `json:"accounting_ok"`
	Accounts         []Check                 `json:"accounts"`
	NotChecked       []string                `json:"not_checked,omitempty"` // what is left out of the accounts, and why
	EventsFromFiles  bool                    `json:"from_files,omitempty"`  // event counts are of the files, since the scheduler was lost
	EndUnknown       bool                    `json:"untold,omitempty"`      // a node or the scheduler could not report how the run ended
	EndCause         string                  `json:"end_cause"`
	Cause            *fault.Fault            `json:"cause,omitempty"`
	BadInput         string                  `json:"bad_input,omitempty"`
	BrokenSource     string                  `json:"broken_source,omitempty"` // why a live source failed; a setting tolerated it
	RecordsSkipped   uint64                  `json:"records_skipped"`
	Filter           *Filter                 `json:"filter,omitempty"`  // nil: there is no filter
	Backlog          *Backlog                `json:"backlog,omitempty"` // nil: there is no second filter
	Output           string                  `json:"output,omitempty"`
	OutputEvents     uint64                  `json:"output_events,omitempty"`  // that a reader of the output finds
	RecordedOutput   *Output                 `json:"recorded,omitempty"`       // contents of the files; nil: no files
	OutputBy         string                  `json:"output_by,omitempty"`      // how MEPs are divided among several output streams
	OutputStreams    []OutputStream          `json:"output_streams,omitempty"` // of each output, if there are several
	Unmerged         bool                    `json:"unmerged,omitempty"`       // the single file was not made; its segments are safe
	Counters         []NodeCounters          `json:"counters"`
	Scheduler        map[string]uint64       `json:"scheduler"` // its counters that are not 0
	// by readout unit, then in the order of beginning
	Timeline []TimelineStep `json:"timeline,omitempty"`
}

// DescribeTraffic names the discipline in words, with the end of a phase: "shift, barrier tournament".
func (r *Report) DescribeTraffic() string {
	switch {
	case !config.Traffic{Discipline: r.Discipline}.DisciplineKind().Phases:
		return r.Discipline
	case r.PhaseEnd != config.PhaseEndBarrier:
		return r.Discipline + " by " + r.PhaseEnd
	}
	return r.Discipline + ", barrier " + r.Barrier
}

// Quantiles3 of a time in µs.
type Quantiles3 struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// Quantiles4 of a time in µs.
type Quantiles4 struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// NodeCounters are a node's counters by name.
type NodeCounters struct {
	Node     string            `json:"node"`
	State    string            `json:"state"`
	Counters map[string]uint64 `json:"counters"`
}

// reporter makes the report of a run that is over on its nodes.
type reporter struct {
	*Run
	now ecsrun.State
}

// MakeReport makes the report of a run that is over on its nodes, from their last reports: it reads the output back,
// closes the accounts, and writes the verdict into the manifests.
func (r *Run) MakeReport() *Report { return (&reporter{r, r.State()}).report() }

func (r *reporter) report() *Report {
	now := &r.now
	st := r.LastStats() // collected before the nodes' reports
	out := r.newReport()
	r.fillScheduler(out, st)
	unknown := len(now.Missing) > 0
	lost := r.lost && !now.GivenUp // else the fault of GiveUp is the cause
	out.EndUnknown, out.Cause = unknown || lost, now.Fault
	if lost && !unknown && out.Cause == nil {
		f := fault.SeenByControl(cmp.Or(r.tagnetName, ControlName), fault.SubsystemScheduler,
			"it was lost before it had told its last figures")
		out.Cause = &f
	}
	if !now.GivenUp || r.cfg.WritesFiles() {
		out.Output = r.cfg.Output
	}
	r.fillTimes(out)
	sums := r.fillCounters(out)
	r.fillPhases(out)
	out.RateS = r.rateDuration(out)
	r.fillBuilders(out, st.GetBus())
	r.fillSources(out)
	r.fillDrifts(out)
	out.fillRates()
	if r.lost {
		out.reconcileFigures(out.MEPsBuilt, out.EventsBuilt, out.EventsTriggered)
	}
	r.noteUnreported(out)
	files := &outputs{Run: r.Run}
	rec := files.closeOutput(out, files.locateOutputs)
	switch {
	case r.lost:
		out.NotChecked = append(out.NotChecked,
			"the scheduler's accounts, which were lost with it: MEPs that were under way in its last report count as "+
				"abandoned, unless the files have them")
	case now.GivenUp:
		out.Accounts = schedulerChecks(out, st.Registers)
	default:
		out.Accounts = append(schedulerChecks(out, st.Registers), unitChecks(out, st.Registers, sums)...)
	}
	files.closeReport(out, rec)
	r.releaseNodes()
	if unknown {
		out.noteEndUnknown(now.Missing)
	}
	return out
}

// fillScheduler fills in the scheduler's figures, and why the run ended.
func (r *reporter) fillScheduler(out *Report, st core.Stats) {
	ev, now := st.GetCounters(), &r.now
	out.EventsTriggered, out.EventsBuilt = ev.GetEventsIssued(), ev.GetEventsBuilt()
	out.EventsDiscarded, out.EventsRejected = ev.GetEventsDiscarded(), ev.GetEventsRejected()
	out.EventsAbandoned, out.MEPsBuilt = ev.GetEventsAbandoned(), ev.GetBuilt()
	out.LatencyUs = quantiles4(st.Latency)
	out.Scheduler = st.CountersByName()
	out.Scheduler["connections_refused"] = r.listener.TurnedAway()
	maps.DeleteFunc(out.Scheduler, func(_ string, n uint64) bool { return n == 0 })
	out.EndCause, out.BadInput, out.BrokenSource = cmp.Or(now.End, now.ByItself), now.BadInput, now.BrokenSource
	out.Leavers = queryCore(r.faults, (*fault.Core).Leavers)
	out.FirstLoss = queryCore(r.faults, (*fault.Core).FirstLoss)
	out.Degraded, out.InactiveBuilders, out.GivenUp = r.WasDegraded(), r.InactiveBuilders(), now.GivenUp
}

// noteEndUnknown notes which nodes, or the scheduler, cannot report how the run ended.
func (r *Report) noteEndUnknown(missing []string) {
	r.NotChecked = append(r.NotChecked, "the end of the run was found when the control came back: "+
		strings.Join(missing, ", ")+" can report nothing of it any more")
	if r.EventsTriggered == 0 { // the scheduler did not report its figures
		r.fillBuilt()
	}
}

// fillBuilt fills in the built MEPs and events without the scheduler's figures: those that the output holds.
func (r *Report) fillBuilt() {
	if r.RecordedOutput != nil {
		r.MEPsBuilt, r.EventsBuilt = r.RecordedOutput.MEPs, r.RecordedOutput.Events
		return
	}
	r.EventsBuilt = 0
	for _, n := range r.Counters {
		c := countsOf(n.Counters)
		r.MEPsBuilt, r.EventsBuilt = r.MEPsBuilt+c.MEPsBuilt, r.EventsBuilt+c.OutputEvents
	}
}

// newReport makes a report with the configuration of the run.
func (r *reporter) newReport() *Report {
	c := &r.cfg
	out := &Report{
		Version:    r.opts.Version,
		Run:        c.RunNumber,
		Nodes:      c.Nodes,
		RUs:        c.RUs,
		BUs:        c.BUs,
		Transport:  c.Transport,
		Network:    c.RemoteCarrier(),
		Discipline: c.Discipline,
		Barrier:    c.BarrierKind().String(),
		Packing:    c.Packing,
	}
	if least, most := c.Division().SourceRange(); least == most {
		out.SourcesPerRU = most
	} else {
		out.Division = c.Division().Counts()
	}
	out.PhaseEnd, _ = c.Phases()
	if c.HasLiveSources() {
		out.OnMissing = c.OnMissing
		if t, err := config.ParseTolerance(c.TolerateMissing); err == nil && t != (config.Tolerance{Text: "0"}) {
			out.TolerateMissing = t.Text
		}
	}
	return out
}

// fillTimes fills in when the run began, and its durations.
func (r *reporter) fillTimes(out *Report) {
	st := r.LastStats()
	if !r.now.Begun.IsZero() {
		out.Started = r.now.Begun.Format(time.RFC3339Nano)
	}
	if first, last := st.GetFirstTokenNs(), st.GetLastMepNs(); first > 0 && last > first {
		out.EventsS = time.Duration(last - first).Seconds()
		out.DurationS = out.EventsS
	}
	if !r.now.Begun.IsZero() {
		out.WallS = time.Since(r.now.Begun).Seconds()
	}
	if r.cfg.HasLiveSources() {
		out.DurationS = r.liveDuration(time.Unix(0, st.GetLastMepNs()), time.Now())
	}
	if (r.now.GivenUp || r.now.Fault != nil) && !r.now.Begun.IsZero() {
		out.DurationS = time.Since(r.now.Begun).Seconds() // the whole run, though nothing was built at its end
	}
}

// fillRates fills in goodput, event rate and processor time per GB.
func (r *Report) fillRates() {
	if d := r.RateS; d > 0 {
		r.GoodputGbps = float64(r.BytesBuilt) * 8 / d / 1e9
		r.EventRateHz = float64(r.EventsBuilt) / d
	}
	if r.BytesBuilt > 0 {
		r.CPUSecondsPerGB = r.CPUSeconds / (float64(r.BytesBuilt) / 1e9)
	}
}

// closeReport closes the accounts with the output that was read back, writes the verdict into the manifests, and makes
// the single file.
func (r *outputs) closeReport(out *Report, rec *readBackOutput) {
	out.closeAccounts()
	if rec != nil {
		r.writeVerdicts(context.Background(), rec, out)
		r.closeReturned()
		r.mergeOutputs(out, rec)
		out.setVerdict() // again: it depends on whether the single file was made
	}
}

// fillCounters adds up the nodes' counters, and fills the fields of the report that come from them.
func (r *reporter) fillCounters(out *Report) counts {
	var reports []*nodev1.Report
	division, ahead := r.cfg.Division(), uint64(0)
	barriers := hdr.New(1, int64(time.Hour/time.Microsecond), 3)
	for _, n := range r.nodes {
		rep := n.latestReport()
		reports = append(reports, rep)
		c := reportedCounts(rep)
		if ru := int(n.firstEntry.GetRuIndex()); n.firstEntry.GetReadout() && ru < division.Units() {
			ahead += c.Retained * uint64(division.SourceCount(ru))
		}
		if h := figures.Histogram(rep, node.HistogramBarrier); h != nil {
			barriers.Merge(h)
		}
		out.CPUSeconds += rep.GetCpuSeconds()
		out.MaxRSSMB += float64(rep.GetMaxRssBytes()) / 1e6
		out.Counters = append(out.Counters, NodeCounters{Node: n.name, State: rep.GetStatus().GetState(),
			Counters: rep.GetCounters()})
		out.RecordsSkipped = max(out.RecordsSkipped, c.RecordsSkipped)
	}
	all := figures.SumCounters(reports)
	sums := countsOf(all)
	sums.MFPsAhead = ahead
	readCounters(out, all, "")
	out.UnitOutages = r.missingReadouts(reports, r.LastStats().Registers)
	out.MFPsAbandoned = out.MFPsRead - min(out.MFPsRead, out.MFPsPlaced+out.MFPsRejected+out.MFPsUnasked)
	out.Links = linksByCarrier(all)
	// Each retransmission repaired a loss, unless the receiver counted it as a duplicate.
	out.ChunksLost = out.ChunksResent - min(out.ChunksResent, out.ChunksDuplicate)
	out.BarrierUs = quantiles(barriers)
	if sums.ConductingUs > 0 {
		out.BarrierShare = float64(sums.BarrierUs) / float64(sums.ConductingUs)
	}
	out.fillDeliveredStreams(&r.cfg, all)
	out.fillFilter(&r.cfg, all, reports)
	out.fillHostTimes(&r.cfg, reports)
	out.fillBacklog(&r.cfg, all)
	r.fillDecisions(out, all)
	if out.Output != "" && !r.cfg.WritesFiles() {
		out.OutputEvents = sums.OutputEvents
	}
	return sums
}
