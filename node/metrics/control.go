package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ringlet/internal/counter"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Metrics of the control, beside the scheduler's counters.
var (
	controlTable metricTable

	partitionInfo  = controlTable.add("ringlet_control_info", kindGauge, "1: the version of the control.", "version")
	partitionState = controlTable.add("ringlet_partition_state", kindGauge,
		"1 for the state the partition is in, 0 for the others.", "state")
	partitionInTransition = controlTable.add("ringlet_partition_in_between", kindGauge,
		"1 while a transition is under way.")
	partitionDegraded = controlTable.add("ringlet_partition_degraded", kindGauge,
		"1 while it goes on with less than it should have.")
	runNumber = controlTable.add("ringlet_run_number", kindGauge,
		"Number of the run that is being built; 0 outside of one.")
	runElapsed         = controlTable.add("ringlet_run_elapsed_seconds", kindGauge, "Time since the run began.")
	connectionsRefused = controlTable.add("ringlet_connections_refused_total", kindCounter,
		"Connections closed, since too many were open.", "service")
	runsEnded       = controlTable.add("ringlet_runs", kindGauge, "Runs on record, by verdict.", "verdict")
	eventsBuilt     = controlTable.add("ringlet_events_built_total", kindCounter, "Events built since the run began.")
	eventsDiscarded = controlTable.add("ringlet_events_discarded_total", kindCounter,
		"Built events that their output had no time for.")
	eventsRejected = controlTable.add("ringlet_events_rejected_total", kindCounter,
		"Events rejected after their region of interest.")
	mepsBuilt    = controlTable.add("ringlet_meps_built_total", kindCounter, "MEPs built since the run began.")
	mepsInFlight = controlTable.add("ringlet_meps_in_flight", kindGauge, "MEPs that have a token and no outcome.")
	bytesBuilt   = controlTable.add("ringlet_bytes_built_total", kindCounter, "Bytes of fragments in complete MEPs.")
	chunksSent   = controlTable.add("ringlet_chunks_sent_total", kindCounter, "Chunks sent, repetitions included.")
	chunksResent = controlTable.add("ringlet_chunks_resent_total", kindCounter, "Chunks that were sent again.")
	eventRate    = controlTable.add("ringlet_event_rate_hertz", kindGauge,
		"Events built a second, over the last interval.")
	throughput = controlTable.add("ringlet_throughput_bytes_per_second", kindGauge,
		"Bytes of fragments in complete MEPs a second, over the last interval.")
	buildLatency = controlTable.add("ringlet_build_latency_seconds", kindHistogram,
		"Time from token to complete MEP. The sum is that of the middles of bars.")
	phasesHeld = controlTable.add("ringlet_phases_held_total", kindCounter,
		"Phases that waited for a readout unit.", "ru")
	sourceSlips = controlTable.add("ringlet_source_slips_total", kindCounter,
		"How often a live source has moved against the others, by the sizes of their fragments.")
	sourceBehind = controlTable.add("ringlet_source_behind_events", kindGauge,
		"By how many events a live source is behind another since it slipped.", "source", "reference")
	eventsCompared = controlTable.add("ringlet_events_compared_total", kindCounter,
		"Events whose live sources were compared.")
	alarmActive = controlTable.add("ringlet_alarm", kindGauge,
		"1 for each alarm that is on; docs/diagnosis.md says what to do.", "rule", "component", "severity")
	schedulerState = controlTable.add("ringlet_scheduler_state", kindGauge,
		"1 for the state of the scheduler.", "state")
	schedulerWaitReason = controlTable.add("ringlet_scheduler_waiting", kindGauge,
		"1 for what the scheduler waits for when it is asked.", "for")
	builderSlots = controlTable.add("ringlet_builder_slots", kindGauge,
		"Slots of a builder unit that tokens may be given for.", "bu")
	builderSlotsUsed = controlTable.add("ringlet_builder_slots_used", kindGauge,
		"Those that hold a MEP or wait for one.", "bu")
	builderExcluded = controlTable.add("ringlet_builder_excluded", kindGauge,
		"1 for a builder unit that takes no tokens.", "bu")
	queueDepth = controlTable.add("ringlet_scheduler_queue", kindGauge, "Entries of a queue of the scheduler.", "queue")
	queueMax   = controlTable.add("ringlet_scheduler_queue_max", kindGauge,
		"Most entries since the begin of the run or the last clear.", "queue")
	queueCapacity = controlTable.add("ringlet_scheduler_queue_capacity", kindGauge, "Entries that it can take.", "queue")
	queueMarks    = controlTable.add("ringlet_scheduler_queue_marks_total", kindCounter,
		"How often it rose to a share of its capacity in percent; it begins anew with a clear.", "queue", "percent")
	groupFree = controlTable.add("ringlet_scheduler_free_slots", kindGauge,
		"Free slots of a group of builder units, with the names of their nodes.", "group")
	memberUp = controlTable.add("ringlet_member_up", kindGauge,
		"1 for a node that reports, 0 for one that is silent.", "node")
	memberState = controlTable.add("ringlet_member_state", kindGauge,
		"1 for the state a node is in, as the control sees it.", "node", "state")
	memberSendRate = controlTable.add("ringlet_member_sent_bytes_per_second", kindGauge,
		"Bytes that its readout unit sends a second.", "node")
	memberBuildRate = controlTable.add("ringlet_member_built_bytes_per_second", kindGauge,
		"Bytes of MEPs that its builder unit completes a second.", "node")
	memberProcessors = controlTable.add("ringlet_member_processors_used", kindGauge, "Processors in use.", "node")
	memberMemory     = controlTable.add("ringlet_member_resident_bytes", kindGauge, "Memory that it has now.", "node")
	memberReportAge  = controlTable.add("ringlet_member_report_age_seconds", kindGauge,
		"Time since it last reported.", "node")
	memberClockOffset = controlTable.add("ringlet_member_clock_offset_seconds", kindGauge,
		"How far its clock is before the control's.", "node")
)

// schedulerMetric is the metric of a scheduler counter.
func schedulerMetric(c *counter.Counter) Metric {
	named := *c
	named.Name = "scheduler." + c.Name
	return counterMetric(&named)
}

// ControlMetrics are the metrics of a control whose scheduler has these counters; those of Go and of the kernel are
// added.
func ControlMetrics(scheduler counter.List) []Metric {
	return controlTable.withCounters(scheduler, schedulerMetric)
}

// Partition is the data of one scrape of a control.
type Partition struct {
	Status   *ecsv1.PartitionStatus
	Snapshot *ecsv1.Snapshot // with alarms
	Runs     map[ecsv1.Verdict]uint64
	Refused  map[string]uint64 // connections, by service
}

// ControlHandler serves the metrics of a control whose scheduler has these counters. read returns the present data,
// notAfter the end of the control's certificate.
func ControlHandler(scheduler counter.List, read func() Partition, notAfter func() time.Time) http.Handler {
	r := newRegistry(notAfter)
	r.MustRegister(collector(func(out chan<- prometheus.Metric) { emitPartition(out, scheduler, read()) }))
	return handler(r)
}

// emitDrifts emits what the comparison of live sources has found.
func emitDrifts(out chan<- prometheus.Metric, s *ecsv1.Snapshot) {
	sourceSlips.emit(out, float64(s.GetSlips()))
	eventsCompared.emit(out, float64(s.GetEventsCompared()))
	for _, d := range s.GetDrifts() {
		if d.GetUntil() == 0 {
			sourceBehind.emit(out, float64(d.GetBehind()), d.GetSource(), d.GetReference())
		}
	}
}

func emitPartition(out chan<- prometheus.Metric, scheduler counter.List, p Partition) {
	root, s := p.Status.GetRoot(), p.Snapshot
	partitionInfo.emit(out, 1, p.Status.GetVersion())
	for _, state := range stableStates {
		partitionState.emit(out, boolValue(state == root.GetState()), state)
	}
	partitionInTransition.emit(out, boolValue(root.GetInBetween() != ""))
	partitionDegraded.emit(out, boolValue(root.GetDegraded()))
	for n, name := range ecsv1.Verdict_name {
		if n > 0 {
			runsEnded.emit(out, float64(p.Runs[ecsv1.Verdict(n)]), strings.ToLower(strings.TrimPrefix(name, "VERDICT_")))
		}
	}
	for service, n := range p.Refused {
		connectionsRefused.emit(out, float64(n), service)
	}
	runNumber.emit(out, float64(s.GetRun()))
	runElapsed.emit(out, s.GetElapsedS())
	emitTotal(out, s.GetTotal())
	for _, a := range s.GetAlarms() {
		alarmActive.emit(out, 1, a.GetRule(), a.GetComponent(), strings.ToLower(strings.TrimPrefix(a.GetSeverity().String(),
			"SEVERITY_")))
	}
	emitDrifts(out, s)
	for _, h := range s.GetHolders() {
		phasesHeld.emit(out, float64(h.GetEpochs()), strconv.Itoa(int(h.GetRu())))
	}
	for _, n := range s.GetNodes() {
		emitMember(out, n)
	}
	emitScheduler(out, scheduler, s.GetScheduler())
	emitLatency(out, s.GetLatency())
}

func emitTotal(out chan<- prometheus.Metric, t *ecsv1.Figures) {
	for _, x := range [...]struct {
		of *Metric
		v  float64
	}{
		{eventsBuilt, float64(t.GetEventsBuilt())},
		{eventsDiscarded, float64(t.GetEventsDiscarded())}, {eventsRejected, float64(t.GetEventsRejected())},
		{mepsBuilt, float64(t.GetMepsBuilt())}, {mepsInFlight, float64(t.GetMepsInFlight())},
		{bytesBuilt, float64(t.GetBytesBuilt())},
		{chunksSent, float64(t.GetChunksSent())}, {chunksResent, float64(t.GetChunksResent())},
		{eventRate, t.GetEventRateHz()}, {throughput, t.GetThroughputBytesPerS()},
	} {
		x.of.emit(out, x.v)
	}
}

func emitMember(out chan<- prometheus.Metric, n *ecsv1.NodeFigures) {
	name := n.GetName()
	memberUp.emit(out, boolValue(!n.GetSilent()), name)
	if n.GetState() != "" {
		memberState.emit(out, 1, name, n.GetState())
	}
	memberSendRate.emit(out, n.GetSentBytesPerS(), name)
	memberBuildRate.emit(out, n.GetBuiltBytesPerS(), name)
	memberProcessors.emit(out, n.GetCpus(), name)
	memberMemory.emit(out, float64(n.GetRssBytes()), name)
	memberReportAge.emit(out, float64(n.GetReportAgeMs())/1e3, name)
	memberClockOffset.emit(out, float64(n.GetClockOffsetUs())/1e6, name)
}

func emitScheduler(out chan<- prometheus.Metric, counters counter.List, s *ecsv1.Scheduler) {
	if s == nil {
		return
	}
	schedulerState.emit(out, 1, s.GetState())
	if s.GetWaitingFor() != "" {
		schedulerWaitReason.emit(out, 1, s.GetWaitingFor())
	}
	for i := range counters {
		if v, found := s.GetCounters()[counters[i].Name]; found {
			m := schedulerMetric(&counters[i])
			m.emit(out, float64(v))
		}
	}
	for _, q := range s.GetQueues() {
		d, name := q.GetDepth(), q.GetName()
		queueDepth.emit(out, float64(d.GetNow()), name)
		queueMax.emit(out, float64(d.GetMax()), name)
		queueCapacity.emit(out, float64(d.GetCapacity()), name)
		for i, percent := range [...]string{"25", "50", "75", "87.5"} {
			if i < len(d.GetCrossed()) {
				queueMarks.emit(out, float64(d.GetCrossed()[i]), name, percent)
			}
		}
		queueMarks.emit(out, float64(d.GetFull()), name, "100")
	}
	for _, g := range s.GetGroups() {
		groupFree.emit(out, float64(g.GetFree()), strings.Join(g.GetNodes(), " "))
	}
	for _, u := range s.GetSlots() {
		bu := strconv.Itoa(int(u.GetBu()))
		builderSlots.emit(out, float64(u.GetSlots()), bu)
		builderSlotsUsed.emit(out, float64(u.GetUsed()), bu)
		builderExcluded.emit(out, boolValue(u.GetExcluded()), bu)
	}
}

// latencyBuckets is how many edges the buckets have, from 1 µs by factors of 2: the last is at 67 s.
const latencyBuckets = 27

// emitLatency makes buckets from bars, whose edges include those of the buckets.
func emitLatency(out chan<- prometheus.Metric, l *ecsv1.Latency) {
	if l == nil {
		return
	}
	buckets := map[float64]uint64{}
	var count uint64
	sum := 0.0
	for _, b := range l.GetBars() {
		count += b.GetCount()
		sum += float64(b.GetCount()) * float64(b.GetFromUs()+b.GetToUs()) / 2e6
	}
	for k := range latencyBuckets {
		edge := int64(1) << k
		var below uint64
		for _, b := range l.GetBars() {
			if b.GetToUs() <= edge {
				below += b.GetCount()
			}
		}
		buckets[float64(edge)/1e6] = below
	}
	if h, err := prometheus.NewConstHistogram(buildLatency.desc(), count, sum, buckets); err == nil {
		out <- h
	}
}
