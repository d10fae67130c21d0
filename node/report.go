package node

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/builderunit/sink"
	histograms "ringlet/internal/histogram"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit"
	"ringlet/readoutunit/source"
)

// HistogramBarrier is the name of the histogram of the time in the barrier, µs per epoch.
const HistogramBarrier = "barrier_us"

// Names of the histograms that the readout unit with index 0 alone has: the time from the first to enter a barrier to
// the last, µs per epoch, and, with the index of a readout unit behind it, how much later than the last but one that
// was, µs per epoch it held.
const (
	HistogramSkew = "phase_skew_us"
	HistogramHeld = "held_us."
)

// Names of the histograms of the decision unit, µs per event: from when an event was known to be triggered to its
// decision; and the parts of that, where there was a result that says how long the builder unit took: until its last
// byte was in place, with the result's way; from then to the builder unit's verdict, where 65535 stands for all that is
// longer; and from when the result came to the decision.
const (
	HistogramDecision = "decision_us"
	HistogramBuilding = "building_us"
	HistogramJudged   = "judged_us"
	HistogramOrdering = "ordering_us"
)

// Names of the histograms of a builder unit with a filter, µs per event: from the last byte until the filter had it,
// and in the filter.
const (
	HistogramFilterWait = "filter_wait_us"
	HistogramFilter     = "filter_us"
)

// HistogramKernelDelay is the name of the histogram of a node's packets, µs, where the kernel's times of them were
// asked for: from when the kernel had them until they were taken in.
const HistogramKernelDelay = "host_us"

// reportBadInput tells once that the input is bad: what came before it is built, so the node is not in error.
func (s *session) reportBadInput(bad error) {
	s.mu.Lock()
	reported := s.badInputReported
	s.badInputReported = true
	s.mu.Unlock()
	if !reported {
		if err := s.node.runner.Degrade(s.node.makeCause("input", bad)); err != nil {
			s.node.logTooLate("bad input", bad, err)
		}
	}
}

// report tells everything the node knows of itself: of the present run, with so many of its last steps at most, or of
// the last one when that is over.
func (n *process) report(steps int) *nodev1.Report {
	n.mu.Lock()
	s, last, req, stopped, began := n.session, n.lastReport, n.currentRequest, n.selfStopCause, n.runBegan
	n.mu.Unlock()
	var r *nodev1.Report
	switch {
	case last != nil:
		r = &nodev1.Report{
			Counters:          last.GetCounters(),
			Histograms:        last.GetHistograms(),
			Run:               last.GetRun(),
			Final:             true,
			Timeline:          last.GetTimeline(),
			Links:             last.GetLinks(),
			View:              last.GetView(),
			Seat:              last.GetSeat(),
			ConfigurationHash: last.GetConfigurationHash(),
			LostPeers:         last.GetLostPeers(),
			Missing:           last.GetMissing(),
			BadPeers:          last.GetBadPeers(),
			EndedAtUs:         last.GetEndedAtUs(),
			Reasons:           last.GetReasons(),
			Frontends:         last.GetFrontends(),
		}
	case s != nil:
		r = s.report()
		r.Timeline = s.timeline(steps)
	default:
		r = &nodev1.Report{}
	}
	if s != nil {
		r.View, r.Seat, r.ConfigurationHash = s.view.GetNumber(), s.self, s.configHash
	}
	r.Leaving = n.leaveRequested.Load()
	r.RunKey = req.GetRunKey()
	r.TagnetName, r.TagnetAddress, r.Stopped = req.GetTagnetName(), req.GetTagnetAddress(), stopped
	if !began.IsZero() {
		r.StartedAtUs = began.UnixMicro()
	}
	r.Name, r.Status, r.Version, r.AtUs, r.Machine = n.cfg.Name, n.status(), n.cfg.Version, time.Now().UnixMicro(),
		n.machineReport(s)
	n.addTerm(r)
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		r.CpuSeconds = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		r.MaxRssBytes = uint64(u.Maxrss) * 1024
	}
	return r
}

// report collects what links and units have counted.
func (s *session) report() *nodev1.Report {
	s.node.mu.Lock()
	run := s.node.runNumber
	s.node.mu.Unlock()
	r := &nodev1.Report{
		Run:               run,
		View:              s.view.GetNumber(),
		Seat:              s.self,
		ConfigurationHash: s.configHash,
		LostPeers:         s.lostPeers(),
		Missing:           s.missingReports(),
		BadPeers:          s.badPeerCauses(),
		Counters:          map[string]uint64{},
		Histograms:        map[string][]byte{},
	}
	c := s.collectCounters()
	s.readCounters(r.Counters, &c)
	var written []uint64
	if c.Readout != nil {
		written = c.Readout.BytesByBU
		s.addReadoutHistograms(r, &c.Readout.BarrierStats)
		r.Reasons, r.Frontends = sourceRejectReasons(c.Readout.Live), frontendNames(c.Readout.Live)
	}
	if unit := s.decisions.unit.Load(); unit != nil {
		l := unit.Latency()
		addHistogram(r, HistogramDecision, l.Total)
		addHistogram(r, HistogramBuilding, l.Building)
		addHistogram(r, HistogramJudged, l.Judging)
		addHistogram(r, HistogramOrdering, l.Ordering)
	}
	s.mu.Lock()
	out := s.sink
	s.mu.Unlock()
	if f, ok := out.(*sink.FilterSink); ok {
		waits, in := f.Histograms()
		addHistogram(r, HistogramFilterWait, waits)
		addHistogram(r, HistogramFilter, in)
	}
	addHistogram(r, HistogramKernelDelay, s.node.network.QueueDelays())
	r.Links = s.linkReports(written)
	return r
}

// Kinds of reasons why something of a live source was not taken.
const (
	ReasonRefused    = "refused" // by the carrier
	ReasonThrownAway = "thrown"  // away, by its number
)

// sourceRejectReasons tells why something of the live sources was not taken, in the order of their ids.
func sourceRejectReasons(of map[string]source.LiveStats) (out []*nodev1.Reason) {
	for _, s := range of {
		for kind, why := range map[string]string{ReasonRefused: s.Refusal, ReasonThrownAway: s.LastFault} {
			if why != "" {
				out = append(out, &nodev1.Reason{Source: uint32(s.SourceID), Kind: kind, Why: why})
			}
		}
	}
	slices.SortFunc(out, func(a, b *nodev1.Reason) int {
		return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), strings.Compare(a.GetKind(), b.GetKind()))
	})
	return out
}

// frontendNames tells who gives the live sources their data, by the ids of the sources, where their feeds know.
func frontendNames(of map[string]source.LiveStats) map[uint32]string {
	out := map[uint32]string{}
	for _, s := range of {
		if s.Frontend != "" {
			out[uint32(s.SourceID)] = s.Frontend
		}
	}
	return out
}

// addReadoutHistograms adds those of the readout unit, and tells of a bad input.
func (s *session) addReadoutHistograms(r *nodev1.Report, w *readoutunit.BarrierStats) {
	if why := s.ru.Load().InputFailure(); why != nil {
		s.reportBadInput(why)
	}
	if bad := s.ru.Load().BadRecord(); bad != nil {
		s.reportBadInput(bad)
	}
	addHistogram(r, HistogramBarrier, w.BarrierWaits)
	addHistogram(r, HistogramSkew, w.EpochSkews)
	for ru, h := range w.HoldTimesByRU {
		addHistogram(r, HistogramHeld+strconv.Itoa(ru), h)
	}
}

// addHistogram adds a histogram to a report, if there is one.
func addHistogram(r *nodev1.Report, name string, h *hdr.Histogram) {
	if h != nil {
		r.Histograms[name] = histograms.Encode(h)
	}
}

// linkReports tells of every link of the view, given what the readout unit has written to each builder unit.
func (s *session) linkReports(to []uint64) []*nodev1.Link {
	out := make([]*nodev1.Link, len(s.view.GetMembers()))
	for rank, m := range s.view.GetMembers() {
		c := s.endpoint.LinkStats(rank)
		out[rank] = &nodev1.Link{
			Rank:            uint32(rank),
			Peer:            m.GetName(),
			ChunksSent:      c.ChunksSent,
			ChunksResent:    c.ChunksResent,
			ChunksPlaced:    c.ChunksPlaced,
			ChunksDuplicate: c.ChunksDuplicate,
		}
		if bu := int(m.GetBuIndex()); m.GetBuilder() && bu < len(to) {
			out[rank].BytesWritten = to[bu]
		}
	}
	return out
}

// finalReportSteps is how many of the last steps of a readout unit the final report has.
const finalReportSteps = 24

// keptTimelineSteps is how many steps a readout unit keeps for who watches the run. A step costs three
// readings of the clock (docs/design/029-figures.md has what that comes to).
const keptTimelineSteps = 64

// timeline is the last steps of the readout unit, so many at most.
func (s *session) timeline(most int) []*nodev1.Step {
	unit := s.ru.Load()
	if unit == nil || most <= 0 {
		return nil
	}
	kept := unit.Timeline()
	kept = kept[max(0, len(kept)-most):]
	steps := make([]*nodev1.Step, len(kept))
	for i, k := range kept {
		steps[i] = &nodev1.Step{
			Phase:      k.Phase,
			Builder:    int32(k.BU),
			Mep:        k.MEP,
			Meps:       uint32(k.MEPs),
			BeginUs:    k.BeginMicros,
			SentUs:     k.OutcomeMicros,
			ReleasedUs: k.ReleasedMicros,
		}
	}
	return steps
}
