package figures

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// Reading is the input of a snapshot: the reports of a partition at one moment.
type Reading struct {
	At       time.Time
	Run      uint32 // 0: there is no run
	State    string // of the partition
	RunBegan time.Time
	Nodes    []Node
	// Sources are the live sources, in the order of their ids.
	Sources []Source
	// Scheduler has the figures of TagNet, nil before the run has begun; SchedulerNode is the node that runs it.
	Scheduler     *core.Stats
	SchedulerNode string
	// Drift has what the comparison of live sources has found in the run.
	Drift Drift
}

// Node is the input of a node's figures.
type Node struct {
	Member   *nodev1.Member // its entry in the view; before there is a view, with its name alone
	State    string         // by the partition; empty: that in the report
	Report   *nodev1.Report // the last one; nil: none yet
	Received time.Time      // of the report, by the clock of Reading.At
}

// silentAfter is the age of a report after which its node counts as silent: six intervals of reports.
const silentAfter = 3 * time.Second

// Builder makes snapshots.
type Builder struct {
	run             uint32
	meters          map[meterKey]*meter
	windowMeters    map[meterKey]*windowMeter
	clockEstimators map[string]*clockEstimator
	history         history
}

// New makes a Builder.
func New() *Builder {
	return &Builder{meters: map[meterKey]*meter{}, windowMeters: map[meterKey]*windowMeter{},
		clockEstimators: map[string]*clockEstimator{}}
}

// Add makes the snapshot of a reading, without alarms and history.
func (b *Builder) Add(r *Reading) *ecsv1.Snapshot {
	if r.Run != b.run { // counters begin at 0 again
		b.run, b.meters, b.windowMeters = r.Run, map[meterKey]*meter{}, map[meterKey]*windowMeter{}
	}
	s := &ecsv1.Snapshot{
		At:    timestamppb.New(r.At),
		Run:   r.Run,
		State: r.State,
		Total: &ecsv1.Figures{},
	}
	if !r.RunBegan.IsZero() {
		s.ElapsedS = max(0, r.At.Sub(r.RunBegan).Seconds())
	}
	var reports []*nodev1.Report
	s.Sources, s.Drifts = b.allSourceFigures(r), r.Drift.messages()
	builders := map[string]uint32{}
	for i := range r.Nodes {
		if m := r.Nodes[i].Member; m.GetBuilder() {
			builders[m.GetName()] = m.GetBuIndex()
		}
	}
	resent := 0.0 // chunks a second
	for i := range r.Nodes {
		n := r.Nodes[i]
		n.Report = reportOfRun(n.Report, r.Run)
		s.Nodes = append(s.Nodes, b.nodeFigures(r, &n))
		if n.Report == nil {
			continue
		}
		reports = append(reports, n.Report)
		s.Traffic = append(s.Traffic, b.trafficRow(r, &n, builders)...)
		s.Timeline = append(s.Timeline, phaseSteps(&n)...)
		resent += b.updateRate(n.Member.GetName(), counterResent, n.Report.GetCounters()[counterResent], reportedAt(&n))
	}
	slices.SortStableFunc(s.Timeline,
		func(a, b *ecsv1.PhaseStep) int { return cmp.Compare(a.GetBeginUs(), b.GetBeginUs()) })
	for _, h := range BarrierHolders(reports) {
		s.Holders = append(s.Holders, &ecsv1.Holder{
			Ru:      uint32(h.RU),
			Epochs:  uint64(h.LateUs.TotalCount()),
			ByUsP50: h.LateUs.ValueAtQuantile(50),
			ByUsP99: h.LateUs.ValueAtQuantile(99),
		})
	}
	for _, m := range SumMissing(reports) {
		s.Missing = append(s.Missing, &ecsv1.MissingReadout{
			Ru:       m.GetRuIndex(),
			Meps:     m.GetMeps(),
			Events:   m.GetEvents(),
			FirstMep: m.GetFirstMep(),
			LastMep:  m.GetLastMep(),

			WholeFromMep: completeFromMEP(r.Scheduler, int(m.GetRuIndex())),
		})
	}
	s.LatencyParts = latencyStages(reports)
	b.fillTotal(r, s, SumCounters(reports))
	b.history.add(s, resent)
	return s
}

// completeFromMEP is the MEP from which on the fragments of a readout unit that was gone are there again; nil while it
// is gone.
func completeFromMEP(st *core.Stats, ru int) *uint64 {
	if st == nil || ru >= len(st.GetRus()) {
		return nil
	}
	gone := st.GetRus()[ru].GetGone()
	if n := len(gone); n > 0 && gone[n-1].GetBack() {
		return new(gone[n-1].GetBackMep())
	}
	return nil
}

const counterResent = "link.chunks_resent"

// reportOfRun is a report without the counters of another run: until a node begins a run, it reports those of the run
// before.
func reportOfRun(rep *nodev1.Report, run uint32) *nodev1.Report {
	if rep == nil || run == 0 || rep.GetRun() == run {
		return rep
	}
	return &nodev1.Report{
		Name:        rep.GetName(),
		Status:      rep.GetStatus(),
		CpuSeconds:  rep.GetCpuSeconds(),
		MaxRssBytes: rep.GetMaxRssBytes(),
		AtUs:        rep.GetAtUs(),
		Version:     rep.GetVersion(),
		Machine:     rep.GetMachine(),
	}
}

// StateWithdrawn is the state of a node that was told to end and has left the run in good order: it does not count as
// silent.
const StateWithdrawn = "left"

// nodeFigures makes the figures of a node.
func (b *Builder) nodeFigures(r *Reading, n *Node) *ecsv1.NodeFigures {
	rep, m := n.Report, n.Report.GetMachine()
	f := &ecsv1.NodeFigures{
		Name:          n.Member.GetName(),
		State:         cmp.Or(n.State, rep.GetStatus().GetState()),
		Readout:       n.Member.GetReadout(),
		RuIndex:       n.Member.GetRuIndex(),
		Builder:       n.Member.GetBuilder(),
		BuIndex:       n.Member.GetBuIndex(),
		MaxRssBytes:   rep.GetMaxRssBytes(),
		Counters:      rep.GetCounters(),
		Version:       rep.GetVersion(),
		Processors:    m.GetProcessors(),
		RssBytes:      m.GetRssBytes(),
		MemoryBytes:   m.GetMemoryBytes(),
		DiskBytes:     m.GetDiskBytes(),
		DiskFreeBytes: m.GetDiskFreeBytes(),
	}
	if rep == nil {
		f.Silent = true
		return f
	}
	age := max(0, r.At.Sub(n.Received))
	f.ReportAgeMs, f.Silent = uint64(age.Milliseconds()), age >= silentAfter && n.State != StateWithdrawn
	f.ClockOffsetUs = b.clockEstimator(f.Name).observe(rep.GetAtUs(), n.Received.UnixMicro())
	at := reportedAt(n)
	sent := b.updateRate(f.Name, "ru.bytes_written", rep.GetCounters()["ru.bytes_written"], at)
	built := b.updateRate(f.Name, "bu.bytes_built", rep.GetCounters()["bu.bytes_built"], at)
	cpus := b.updateRate(f.Name, "cpu", uint64(rep.GetCpuSeconds()*1e6), at) / 1e6
	if !f.Silent && !rep.GetFinal() {
		f.SentBytesPerS, f.BuiltBytesPerS = sent, built
	}
	if !f.Silent {
		f.Cpus = cpus
	}
	return f
}

// reportedAt is when a report was made, in µs by the node's clock, since only differences matter; if the report has no
// time, when it was received.
func reportedAt(n *Node) int64 { return cmp.Or(n.Report.GetAtUs(), n.Received.UnixMicro()) }

// trafficRow makes the row of a readout unit in the traffic matrix. builders are the indices of the builder units by
// node.
func (b *Builder) trafficRow(r *Reading, n *Node, builders map[string]uint32) (row []*ecsv1.Traffic) {
	if !n.Member.GetReadout() {
		return nil
	}
	old := r.At.Sub(n.Received) >= silentAfter || n.Report.GetFinal()
	for _, l := range n.Report.GetLinks() {
		bu, ok := builders[l.GetPeer()]
		if !ok {
			continue
		}
		t := &ecsv1.Traffic{
			Ru:           n.Member.GetRuIndex(),
			Bu:           bu,
			Bytes:        l.GetBytesWritten(),
			ChunksResent: l.GetChunksResent(),
			ChunksSent:   l.GetChunksSent(),
		}
		if rate := b.updateRate(n.Member.GetName(), l.GetPeer(), l.GetBytesWritten(), reportedAt(n)); !old {
			t.BytesPerS = rate
		}
		row = append(row, t)
	}
	return row
}

func phaseSteps(n *Node) []*ecsv1.PhaseStep {
	var out []*ecsv1.PhaseStep
	for _, s := range n.Report.GetTimeline() {
		out = append(out, &ecsv1.PhaseStep{
			Ru:         n.Member.GetRuIndex(),
			Phase:      s.GetPhase(),
			Bu:         s.GetBuilder(),
			Mep:        s.GetMep(),
			BeginUs:    s.GetBeginUs(),
			SentUs:     s.GetSentUs(),
			ReleasedUs: s.GetReleasedUs(),
		})
	}
	return out
}

// fillTotal fills in the figures of the whole partition and of the scheduler.
func (b *Builder) fillTotal(r *Reading, s *ecsv1.Snapshot, sums map[string]uint64) {
	t := s.GetTotal()
	s.Slips, s.EventsCompared = r.Drift.Slips, r.Drift.Compared
	t.BytesBuilt, t.ChunksSent, t.ChunksResent = sums["bu.bytes_built"], sums["link.chunks_sent"], sums[counterResent]
	for _, n := range s.GetNodes() {
		t.ThroughputBytesPerS += n.GetBuiltBytesPerS()
	}
	if r.Scheduler == nil {
		return
	}
	reg := r.Scheduler.Registers
	c := reg.GetCounters()
	t.EventsBuilt, t.EventsDiscarded = c.GetEventsBuilt(), c.GetEventsDiscarded()
	t.EventsRejected = c.GetEventsRejected()
	t.MepsBuilt, t.MepsInFlight = c.GetBuilt(), reg.GetInFlight()
	t.EventRateHz = b.updateRate("", "events_built", c.GetEventsBuilt(), r.At.UnixMicro())
	s.Scheduler = &ecsv1.Scheduler{
		State:      core.State(reg.GetState()).String(),
		WaitingFor: reg.GetWaitingFor(),
		Counters:   r.Scheduler.CountersByName(),
		Node:       r.SchedulerNode,
		Mode:       core.Policy(reg.GetPolicy() - 1).String(),
		Queues:     queues(reg),
		Groups:     groups(reg),
		Refused:    reg.GetRefused(),
		Trigger:    reg.GetTrigger(),
	}
	if c := reg.GetCleared(); c != nil {
		s.Scheduler.Cleared = &ecsv1.Cleared{User: c.GetUser(), At: timestamppb.New(time.Unix(0, c.GetAtNs())),
			Counters: r.Scheduler.ClearedByName()}
	}
	for i, u := range reg.GetBus() {
		used := u.GetUsed()
		s.Scheduler.Slots = append(s.Scheduler.Slots, &ecsv1.SlotUse{
			Bu:       uint32(i),
			Used:     used.GetNow(),
			Slots:    max(used.GetCapacity(), used.GetNow()),
			Excluded: u.GetExcluded(),
		})
	}
	s.Latency = summarizeLatency(r.Scheduler.Latency)
}
