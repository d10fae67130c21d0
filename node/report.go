package node

import (
	"maps"
	"net"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/builderunit"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit"
	"ringlet/tagnet"
)

// HistogramBarrier is the name of the histogram of the time in the barrier, µs per epoch.
const HistogramBarrier = "barrier_us"

// Names of the histograms that the readout unit with index 0 alone has: the time from the first to enter a barrier to the last, µs
// per epoch, and, with the index of a readout unit behind it, how much later than the last but one that was, µs per epoch it held.
const (
	HistogramSkew = "phase_skew_us"
	HistogramHeld = "held_us."
)

// CounterBadInput is the counter that says that a readout unit's input ended with a bad record; the status says which.
const CounterBadInput = "ru.bad_input"

// CounterWritten is the counter of the bytes that an output has given to its file so far, those that it wrote once
// more included: while a run ends it tells a builder unit that still writes from one that is stuck.
const CounterWritten = "bu.output_written"

// degrade tells once that the input is bad: what came before it is built, so the node is not in error.
func (s *session) degrade(bad error) {
	s.mu.Lock()
	told := s.badInput
	s.badInput = true
	s.mu.Unlock()
	if !told {
		if err := s.node.runner.Degrade(s.node.cause("input", bad)); err != nil {
			s.node.log.Warn("bad input came too late to matter", "err", err)
		}
	}
}

// report tells everything the node knows of itself: of the present run, with so many of its last steps at most, or of the last one
// when that is over.
func (n *Node) report(steps int) *nodev1.Report {
	n.mu.Lock()
	s, last, req, stopped, began := n.session, n.last, n.request, n.stopped, n.began
	n.mu.Unlock()
	var r *nodev1.Report
	switch {
	case last != nil:
		r = &nodev1.Report{
			Counters: last.GetCounters(), Histograms: last.GetHistograms(), Run: last.GetRun(), Final: true, Timeline: last.GetTimeline(), Links: last.GetLinks(),
			View: last.GetView(), Seat: last.GetSeat(), ConfigurationHash: last.GetConfigurationHash(),
			LostPeers: last.GetLostPeers(), EndedAtUs: last.GetEndedAtUs(),
		}
	case s != nil:
		r = s.report()
		r.Timeline = s.timeline(steps)
	default:
		r = &nodev1.Report{}
	}
	if s != nil {
		r.View, r.Seat, r.ConfigurationHash = s.view.GetNumber(), s.me, s.hash
	}
	r.Leaving = n.leaving.Load()
	r.RunKey = req.GetRunKey()
	r.TagnetName, r.TagnetAddress, r.Stopped = req.GetTagnetName(), req.GetTagnetAddress(), stopped
	if !began.IsZero() {
		r.StartedAtUs = began.UnixMicro()
	}
	r.Name, r.Status, r.Version, r.AtUs, r.Machine = n.cfg.Name, n.status(), n.cfg.Version, time.Now().UnixMicro(), n.machine(s)
	n.term(r)
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		r.CpuSeconds = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		r.MaxRssBytes = uint64(u.Maxrss) * 1024
	}
	return r
}

// report collects the counters of links and units.
func (s *session) report() *nodev1.Report {
	s.node.mu.Lock()
	run := s.node.run
	s.node.mu.Unlock()
	r := &nodev1.Report{Run: run, View: s.view.GetNumber(), Seat: s.me, ConfigurationHash: s.hash, Counters: map[string]uint64{}, Histograms: map[string][]byte{}}
	r.LostPeers = s.lostPeers()
	s.countLinks(r.Counters)
	var unit readoutunit.Stats
	if ru := s.ru.Load(); ru != nil {
		unit = ru.Stats()
		s.countReadout(r, &unit)
	}
	r.Links = s.links(unit.BytesTo)
	if s.bu.Load() != nil {
		s.countBuilder(r.Counters)
	}
	return r
}

// countLinks counts what links have done since the units were made: links stay from run to run.
func (s *session) countLinks(c map[string]uint64) {
	s.countRaw(c)
	s.node.countRefused(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, before := range s.before {
		c[name] -= min(before, c[name])
	}
}

// countRaw counts what links have done since they are there.
func (s *session) countRaw(c map[string]uint64) {
	countLayers(c, s.endpoint.Stats(), s.node.network.Stats())
	if addr, ok := s.node.network.Addr().(*net.UDPAddr); ok {
		c["socket.kernel_drops"] = kernelDrops(addr.Port)
	}
	c["node.bad_signals"], c["node.writes_refused"] = s.counters.badSignals.Load(), s.counters.refusedWrites.Load()
	c["node.connections_refused"] = s.node.door.TurnedAway()
	if members := s.node.members.Load(); members != nil {
		c["node.gossip_refused"] = members.Counters().Sum()
	}
	c["node.malformed"], c["node.links_down"] = s.counters.malformed.Load(), s.counters.linksDown.Load()
}

// countRefused adds the refused calls, of the node service and of the host, to a report. They count since the process
// began.
func (n *Node) countRefused(c map[string]uint64) {
	c["node.calls_refused"], c["node.calls_fenced"] = n.refusals.strangers.Load(), n.refusals.fenced.Load()
	for why, times := range n.host.Refused() {
		if why == tagnet.RefusedTerm {
			c["node.calls_fenced"] += times
		} else {
			c["node.calls_refused"] += times
		}
	}
}

// beginCounting makes the counters of links begin with a run.
func (s *session) beginCounting() {
	before := map[string]uint64{}
	s.countRaw(before)
	maps.DeleteFunc(before, func(name string, _ uint64) bool { return isLevel(name) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

func (s *session) countReadout(r *nodev1.Report, u *readoutunit.Stats) {
	for name, v := range map[string]uint64{
		"ru.mfps_read": u.MFPsRead, "ru.meps_read": u.Source.Blocks, "ru.events_read": u.Source.Events,
		"ru.bytes_read": u.Source.Bytes, "ru.records_skipped": u.Source.SkippedRecords, "ru.loops": u.Source.Loops,
		"ru.tokens": u.Tokens, "ru.unasked": u.Unasked, "ru.writes": u.Writes, "ru.bytes_written": u.BytesWritten, "ru.phases": u.Phases,
		"ru.dummies": u.Dummies, "ru.overruns": u.Overruns, "ru.bypassed": u.Bypassed, "ru.retained": uint64(u.Retained), "ru.retained_bytes_high": uint64(u.RetainedHigh),
		"ru.open": uint64(u.Open), "ru.barrier_us": uint64(u.InBarrier.Microseconds()),
		"ru.grant_us": uint64(u.ForGrants.Microseconds()), "ru.token_us": uint64(u.ForTokens.Microseconds()),
		"ru.source_us": uint64(u.ForSource.Microseconds()), "ru.room_us": uint64(u.ForRoom.Microseconds()), "ru.conducting_us": uint64(u.Conducting.Microseconds()),
		"ru.withdrawn": u.Withdrawn, "ru.writes_lost": u.Failed, "ru.late_grants": u.LateGrants, "ru.builders_lost": uint64(u.BuildersLost),
		"ru.left_writes": uint64(u.LeftWrites),
	} {
		r.Counters[name] = v
	}
	if bad := s.ru.Load().BadRecord(); bad != nil {
		r.Counters[CounterBadInput] = 1
		s.degrade(bad)
	}
	histogram(r, HistogramBarrier, u.Barriers)
	histogram(r, HistogramSkew, u.Skews)
	for ru, h := range u.Holders {
		histogram(r, HistogramHeld+strconv.Itoa(ru), h)
	}
}

// histogram adds a histogram to a report, if there is one.
func histogram(r *nodev1.Report, name string, h *hdr.Histogram) {
	if h == nil {
		return
	}
	if b, err := h.Encode(hdr.V2CompressedEncodingCookieBase); err == nil {
		r.Histograms[name] = b
	}
}

// links tells of every link of the view, given what the readout unit has written to each builder unit.
func (s *session) links(to []uint64) []*nodev1.Link {
	out := make([]*nodev1.Link, len(s.view.GetMembers()))
	for rank, m := range s.view.GetMembers() {
		c := s.endpoint.LinkStats(rank)
		out[rank] = &nodev1.Link{
			Rank: uint32(rank), Peer: m.GetName(), ChunksSent: c.ChunksSent, ChunksResent: c.ChunksResent, ChunksPlaced: c.ChunksPlaced,
			ChunksDuplicate: c.ChunksDuplicate,
		}
		if bu := int(m.GetBuIndex()); m.GetBuilder() && bu < len(to) {
			out[rank].BytesWritten = to[bu]
		}
	}
	return out
}

// reportSteps is how many of the last steps of a readout unit the final report has.
const reportSteps = 24

// liveSteps is how many steps a readout unit keeps for who watches the run. A step costs three
// readings of the clock (docs/design/029-figures.md has what that comes to).
const liveSteps = 64

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
			Phase: k.Phase, Builder: int32(k.BU), Mep: k.MEP, BeginUs: k.Begin, SentUs: k.Sent, ReleasedUs: k.Released,
		}
	}
	return steps
}

func (s *session) countBuilder(c map[string]uint64) {
	b := s.bu.Load().Stats()
	s.mu.Lock()
	out := s.output
	s.mu.Unlock()
	for name, v := range map[string]uint64{
		"bu.meps_built": b.MEPs, "bu.mfps_placed": b.MFPs, "bu.bytes_built": b.Bytes, "bu.meps_incomplete": b.Incomplete,
		"bu.announced": b.Announced, "bu.announce_refused": b.Refused, "bu.strays": b.Strays, "bu.rejected": b.Rejected,
		"bu.meps_discarded": b.DiscardedMEPs, "bu.suspensions": b.Suspensions, "bu.suspended_us": uint64(b.Suspended.Microseconds()), "bu.sink_us": uint64(b.InSink.Microseconds()),
		"bu.meps_rejected": b.RejectedMEPs, "bu.mfps_rejected": b.RejectedMFPs, "bu.mfps_unasked": b.UnaskedMFPs,
		"bu.unasked": b.UnaskedParts, "bu.requests": b.Granted, "bu.window_high": b.WindowHigh, "bu.parts": b.Quota.Parts, "bu.output_meps": out.MEPs, "bu.output_events": out.Events, "bu.output_bytes": out.Bytes,
	} {
		c[name] = v
	}
	c["bu.meps_withdrawn"], c[CounterWritten] = b.Withdrawn, s.written()
	if told := s.told.Load(); told != nil {
		c["bu.untold"], c["bu.exclusions"] = told.untold.Load(), told.exclusions.Load()
	}
	for why, n := range b.Quota.ByKind {
		if n > 0 {
			c["bu.strays."+strings.ReplaceAll(builderunit.Stray(why).String(), " ", "_")] = n
		}
	}
}

// Tune sets the garbage collector for a node: quic-go makes garbage per datagram, and a collection costs the same however much
// there is of it. At GOGC=100 the collector took a quarter of a receiving node's time, at 800 a tenth (measured 2026-11-21).
func Tune() { debug.SetGCPercent(800) }
