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
	ofControl metrics

	partitionInfo  = ofControl.add("ringlet_control_info", gauge, "1: the version of the control.", "version")
	partitionState = ofControl.add("ringlet_partition_state", gauge,
		"1 for the state the partition is in, 0 for the others.", "state")
	partitionChanging = ofControl.add("ringlet_partition_in_between", gauge,
		"1 while a transition is under way.")
	partitionDegraded = ofControl.add("ringlet_partition_degraded", gauge,
		"1 while it goes on with less than it should have.")
	runNumber = ofControl.add("ringlet_run_number", gauge,
		"Number of the run that is being built; 0 outside of one.")
	runElapsed = ofControl.add("ringlet_run_elapsed_seconds", gauge, "Time since the run began.")
	turnedAway = ofControl.add("ringlet_connections_refused_total", counted,
		"Connections that were closed, since too many were open.", "service")
	runsEnded        = ofControl.add("ringlet_runs", gauge, "Runs on record, by verdict.", "verdict")
	eventsBuilt      = ofControl.add("ringlet_events_built_total", counted, "Events built since the run began.")
	eventsIncomplete = ofControl.add("ringlet_events_incomplete_total", counted,
		"Events of which a builder unit told that it gave them up; those of today never do.")
	eventsDiscarded = ofControl.add("ringlet_events_discarded_total", counted,
		"Events that were discarded: they were built, and their output had no time for them.")
	eventsRejected = ofControl.add("ringlet_events_rejected_total", counted,
		"Events that were rejected after their region of interest.")
	mepsBuilt    = ofControl.add("ringlet_meps_built_total", counted, "MEPs built since the run began.")
	mepsInFlight = ofControl.add("ringlet_meps_in_flight", gauge, "MEPs that have a token and no outcome.")
	bytesBuilt   = ofControl.add("ringlet_bytes_built_total", counted, "Bytes of fragments in complete MEPs.")
	chunksSent   = ofControl.add("ringlet_chunks_sent_total", counted, "Chunks sent, repetitions included.")
	chunksResent = ofControl.add("ringlet_chunks_resent_total", counted, "Chunks that were sent again.")
	eventRate    = ofControl.add("ringlet_event_rate_hertz", gauge,
		"Events built a second, over the last interval.")
	throughput = ofControl.add("ringlet_throughput_bytes_per_second", gauge,
		"Bytes of fragments in complete MEPs a second, over the last interval.")
	buildLatency = ofControl.add("ringlet_build_latency_seconds", histogram,
		"Time from token to complete MEP. The sum is that of the middles of bars.")
	phasesHeld = ofControl.add("ringlet_phases_held_total", counted,
		"Phases that waited for a readout unit.", "ru")
	alarm = ofControl.add("ringlet_alarm", gauge,
		"1 for each alarm that is on; docs/diagnosis.md says what to do.", "rule", "component", "severity")
	schedulerState = ofControl.add("ringlet_scheduler_state", gauge,
		"1 for the state of the scheduler.", "state")
	schedulerWaits = ofControl.add("ringlet_scheduler_waiting", gauge,
		"1 for what the scheduler waits for when it is asked.", "for")
	schedulerSlots = ofControl.add("ringlet_builder_slots", gauge,
		"Slots of a builder unit that tokens may be given for.", "bu")
	schedulerUsed = ofControl.add("ringlet_builder_slots_used", gauge,
		"Those that hold a MEP or wait for one.", "bu")
	builderExcluded = ofControl.add("ringlet_builder_excluded", gauge,
		"1 for a builder unit that takes no tokens.", "bu")
	memberUp = ofControl.add("ringlet_member_up", gauge,
		"1 for a node that tells how it does, 0 for one that is silent.", "node")
	memberState = ofControl.add("ringlet_member_state", gauge,
		"1 for the state a node is in, as the control sees it.", "node", "state")
	memberSent = ofControl.add("ringlet_member_sent_bytes_per_second", gauge,
		"Bytes that its readout unit sends a second.", "node")
	memberBuilt = ofControl.add("ringlet_member_built_bytes_per_second", gauge,
		"Bytes of MEPs that its builder unit completes a second.", "node")
	memberProcessors = ofControl.add("ringlet_member_processors_used", gauge, "Processors in use.", "node")
	memberMemory     = ofControl.add("ringlet_member_resident_bytes", gauge, "Memory that it has now.", "node")
	memberAge        = ofControl.add("ringlet_member_report_age_seconds", gauge,
		"Time since it last reported.", "node")
	memberClock = ofControl.add("ringlet_member_clock_offset_seconds", gauge,
		"How far its clock is before the control's.", "node")
)

// ofScheduler is the metric of a counter of the scheduler.
func ofScheduler(c *counter.Counter) Metric {
	named := *c
	named.Name = "scheduler." + c.Name
	return ofCounter(&named)
}

// ControlMetrics are those of a control whose scheduler has these counters; what Go and the kernel tell comes on top.
func ControlMetrics(scheduler counter.List) []Metric { return ofControl.with(scheduler, ofScheduler) }

// Partition is what a control tells when it is asked.
type Partition struct {
	Status   *ecsv1.PartitionStatus
	Snapshot *ecsv1.Snapshot // with alarms
	Runs     map[ecsv1.Verdict]uint64
	Refused  map[string]uint64 // connections, by service
}

// Control serves the metrics of a control whose scheduler has these counters: read tells how things stand, certified
// until when its certificate is good.
func Control(scheduler counter.List, read func() Partition, certified func() time.Time) http.Handler {
	return handler(func(out chan<- prometheus.Metric) { tellPartition(out, scheduler, read()) }, certified)
}

func tellPartition(out chan<- prometheus.Metric, scheduler counter.List, p Partition) {
	root, s := p.Status.GetRoot(), p.Snapshot
	partitionInfo.tell(out, 1, p.Status.GetVersion())
	for _, state := range states {
		partitionState.tell(out, flag(state == root.GetState()), state)
	}
	partitionChanging.tell(out, flag(root.GetInBetween() != ""))
	partitionDegraded.tell(out, flag(root.GetDegraded()))
	for n, name := range ecsv1.Verdict_name {
		if n > 0 {
			runsEnded.tell(out, float64(p.Runs[ecsv1.Verdict(n)]), strings.ToLower(strings.TrimPrefix(name, "VERDICT_")))
		}
	}
	for service, n := range p.Refused {
		turnedAway.tell(out, float64(n), service)
	}
	runNumber.tell(out, float64(s.GetRun()))
	runElapsed.tell(out, s.GetElapsedS())
	tellTotal(out, s.GetTotal())
	for _, a := range s.GetAlarms() {
		alarm.tell(out, 1, a.GetRule(), a.GetComponent(), strings.ToLower(strings.TrimPrefix(a.GetSeverity().String(),
			"SEVERITY_")))
	}
	for _, h := range s.GetHolders() {
		phasesHeld.tell(out, float64(h.GetEpochs()), strconv.Itoa(int(h.GetRu())))
	}
	for _, n := range s.GetNodes() {
		tellMember(out, n)
	}
	tellScheduler(out, scheduler, s.GetScheduler())
	tellLatency(out, s.GetLatency())
}

func tellTotal(out chan<- prometheus.Metric, t *ecsv1.Figures) {
	for _, x := range [...]struct {
		of *Metric
		v  float64
	}{
		{eventsBuilt, float64(t.GetEventsBuilt())}, {eventsIncomplete, float64(t.GetEventsIncomplete())},
		{eventsDiscarded, float64(t.GetEventsDiscarded())}, {eventsRejected, float64(t.GetEventsRejected())},
		{mepsBuilt, float64(t.GetMepsBuilt())}, {mepsInFlight, float64(t.GetMepsInFlight())},
		{bytesBuilt, float64(t.GetBytesBuilt())},
		{chunksSent, float64(t.GetChunksSent())}, {chunksResent, float64(t.GetChunksResent())},
		{eventRate, t.GetEventRateHz()}, {throughput, t.GetThroughputBytesPerS()},
	} {
		x.of.tell(out, x.v)
	}
}

func tellMember(out chan<- prometheus.Metric, n *ecsv1.NodeFigures) {
	name := n.GetName()
	memberUp.tell(out, flag(!n.GetSilent()), name)
	if n.GetState() != "" {
		memberState.tell(out, 1, name, n.GetState())
	}
	memberSent.tell(out, n.GetSentBytesPerS(), name)
	memberBuilt.tell(out, n.GetBuiltBytesPerS(), name)
	memberProcessors.tell(out, n.GetCpus(), name)
	memberMemory.tell(out, float64(n.GetRssBytes()), name)
	memberAge.tell(out, float64(n.GetReportAgeMs())/1e3, name)
	memberClock.tell(out, float64(n.GetClockOffsetUs())/1e6, name)
}

func tellScheduler(out chan<- prometheus.Metric, counters counter.List, s *ecsv1.Scheduler) {
	if s == nil {
		return
	}
	schedulerState.tell(out, 1, s.GetState())
	if s.GetWaitingFor() != "" {
		schedulerWaits.tell(out, 1, s.GetWaitingFor())
	}
	for i := range counters {
		if v, told := s.GetCounters()[counters[i].Name]; told {
			m := ofScheduler(&counters[i])
			m.tell(out, float64(v))
		}
	}
	for _, u := range s.GetSlots() {
		bu := strconv.Itoa(int(u.GetBu()))
		schedulerSlots.tell(out, float64(u.GetSlots()), bu)
		schedulerUsed.tell(out, float64(u.GetUsed()), bu)
		builderExcluded.tell(out, flag(u.GetExcluded()), bu)
	}
}

// octaves is how many edges the buckets have, from 1 µs by factors of 2: the last is at 67 s.
const octaves = 27

// tellLatency makes buckets of bars, whose edges hold those of the buckets.
func tellLatency(out chan<- prometheus.Metric, l *ecsv1.Latency) {
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
	for k := range octaves {
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
