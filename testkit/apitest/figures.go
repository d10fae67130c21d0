package apitest

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

const (
	eventsPerTick = 8000 // 80 kHz
	bytesPerEvent = 12_000
	packing       = 4000
)

// publish adds an event with the made-up time and the run. The caller holds mu.
func (f *Fake) publish(e *ecsv1.Event) {
	e.At = timestamppb.New(f.now())
	if f.runActive() {
		e.Run = f.run.GetNumber()
		f.run.Events = append(f.run.Events, e)
	}
	f.Add(e)
}

// runActive says whether there is a run that has not ended. The caller holds mu.
func (f *Fake) runActive() bool {
	return f.run != nil && f.run.GetVerdict() == ecsv1.Verdict_VERDICT_UNSPECIFIED
}

func (f *Fake) newRun(user string, req *ecsv1.CommandRequest) {
	f.run = &ecsv1.Run{
		Number:            f.run.GetNumber() + 1,
		StartedBy:         user,
		StartBegun:        timestamppb.New(f.now()),
		Configuration:     f.config,
		ConfigurationHash: hash(f.config),
		Nodes:             f.Names(),
		Remark:            req.GetArguments()["remark"],
		Scan:              req.GetArguments()["scan"],
		Versions:          map[string]string{"control": "fake"},
	}
	f.publish(&ecsv1.Event{
		Kind:      "run",
		Component: "partition",
		Text:      fmt.Sprintf("run %d begins", f.run.GetNumber()),
		Severity:  ecsv1.Severity_SEVERITY_INFO,
		User:      user,
	})
	f.save(f.run)
}

func (f *Fake) endRun(v ecsv1.Verdict, end string) {
	f.publish(&ecsv1.Event{
		Kind:      "run",
		Component: "partition",
		Text:      fmt.Sprintf("run %d ended: %s", f.run.GetNumber(), end),
		Severity:  ecsv1.Severity_SEVERITY_INFO,
	})
	f.run.Verdict, f.run.End, f.run.StopDone = v, end, timestamppb.New(f.now())
	setBuiltTotals(f.run, f.builtTicks)
	f.save(f.run)
}

// setBuiltTotals fills in the totals of a run that has built for that many ticks.
func setBuiltTotals(r *ecsv1.Run, ticks uint64) {
	r.EventsBuilt = ticks * eventsPerTick
	r.BytesBuilt = r.EventsBuilt * bytesPerEvent
	r.DurationS = float64(ticks) * tickTime.Seconds()
	if r.DurationS > 0 {
		r.EventRateHz = float64(r.EventsBuilt) / r.DurationS
		r.GoodputGbps = float64(r.BytesBuilt) * 8 / 1e9 / r.DurationS
	}
	r.Accounts = []*ecsv1.Account{
		{Name: "MFPs read = in complete MEPs + discarded + abandoned", Left: r.EventsBuilt / packing * 4,
			Right: r.EventsBuilt / packing * 4, Ok: true},
		{Name: "chunks sent = placed + duplicate + late + lost", Left: r.EventsBuilt, Right: r.EventsBuilt, Ok: true},
	}
	r.ReportJson = fmt.Sprintf(
		`{"events_built":%d,"accounting_ok":true,`+
			`"counters":[{"node":"n0","counters":{"ru.mfps_read":%d,"bu.meps_built":%d}}],`+
			`"sources":[{"source":0,"name":"tof","fragments":%d,"used":%d,"missing":%d,"size_bytes":{"p50":%d,"bars":[`+
			`{"from":96,"to":99,"n":%d},{"from":%d,"to":215,"n":%d},{"from":400,"to":415,"n":%d}]},`+
			`"missing_by_time":{"bin_ms":1000,"events":[800,800,400],"missing":[0,9,0]}}]}`,
		r.EventsBuilt, r.EventsBuilt/packing, r.EventsBuilt/packing/4, r.EventsBuilt, r.EventsBuilt, r.Number,
		190+r.Number, r.EventsBuilt/4+1, 190+r.Number, r.EventsBuilt/2+1, r.EventsBuilt/8+1)
}

// Status is the status with the tree of components.
func (f *Fake) Status() *ecsv1.PartitionStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	stable, between := f.state.String(), ""
	if f.state.IsTransitional() {
		for _, t := range fsm.Transitions() {
			if t.Via == f.state {
				stable, between = t.From[0].String(), f.state.String()
			}
		}
	}
	root := &ecsv1.Component{
		Name:      "partition",
		Kind:      "partition",
		State:     stable,
		InBetween: between,
		Included:  true,
		Degraded:  len(f.excluded) > 0,
		InError:   f.state == fsm.Error,
		Cause:     f.fault,
	}
	if f.state != fsm.Offline {
		root.Children = append(root.Children, &ecsv1.Component{
			Name:      "tagnet",
			Kind:      "tagnet",
			State:     stable,
			InBetween: between,
			Included:  true,
			Loss:      "essential",
			Facts:     map[string]string{"node": "n0"},
		})
		for i, n := range f.Names() {
			root.Children = append(root.Children, f.node(i, n, stable, between))
		}
	}
	return &ecsv1.PartitionStatus{
		Root:              root,
		Run:               f.run.GetNumber(),
		Allowed:           f.allowed(),
		Configuration:     f.config,
		ConfigurationHash: hash(f.config),
		Version:           "fake",
		Since:             timestamppb.New(f.since),
		Change:            f.changes,
	}
}

func (f *Fake) node(i int, n, stable, between string) *ecsv1.Component {
	c := &ecsv1.Component{
		Name:      n,
		Kind:      "node",
		State:     stable,
		InBetween: between,
		Included:  !f.excluded[n],
		Loss:      "at-least 3 of 4",
		Facts: map[string]string{"address": fmt.Sprintf("10.0.0.%d:7946", i+1), "version": "fake",
			"host": fmt.Sprintf("host%d", i), "memory": "8.0 GiB"},
	}
	if f.state == fsm.Error {
		c.State, c.InBetween = fsm.Ready.String(), "" // healthy nodes wait in Ready
		if f.fault.GetComponent() == n {
			c.State, c.InError, c.Cause = fsm.Error.String(), true, f.fault
		}
	}
	for _, kind := range []string{"readout", "builder"} {
		c.Children = append(c.Children, &ecsv1.Component{
			Name:      fmt.Sprintf("%s unit %d", kind, i),
			Kind:      kind,
			State:     c.GetState(),
			InBetween: c.GetInBetween(),
			InError:   c.GetInError(),
			Included:  c.GetIncluded() || kind == "readout" && f.state == fsm.Running,
		})
	}
	return c
}

// Snapshot is the figures, which depend on the count of ticks alone.
func (f *Fake) Snapshot(history int) *ecsv1.Snapshot {
	s := f.snapshot()
	const kept = 120 // samples, all like the current one: one minute
	for i := min(history, kept); i > 0; i-- {
		s.History = append(s.History, &ecsv1.Sample{
			At:                  timestamppb.New(s.GetAt().AsTime().Add(-time.Duration(i) * 500 * time.Millisecond)),
			Run:                 s.GetRun(),
			EventRateHz:         s.GetTotal().GetEventRateHz(),
			ThroughputBytesPerS: s.GetTotal().GetThroughputBytesPerS(),
			MepsInFlight:        s.GetTotal().GetMepsInFlight(),
		})
	}
	return s
}

func (f *Fake) snapshot() *ecsv1.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &ecsv1.Snapshot{
		At:        timestamppb.New(f.now()),
		State:     f.state.String(),
		Total:     &ecsv1.Figures{},
		Latency:   &ecsv1.Latency{},
		Scheduler: &ecsv1.Scheduler{State: "idle", Node: "n0"},
	}
	for i, n := range f.Names() {
		s.Nodes = append(s.Nodes, &ecsv1.NodeFigures{
			Name:          n,
			State:         f.state.String(),
			Readout:       true,
			RuIndex:       uint32(i),
			Builder:       true,
			BuIndex:       uint32(i),
			MaxRssBytes:   uint64(200+10*i) << 20,
			ReportAgeMs:   uint64(50 + 40*i),
			ClockOffsetUs: int64(3*i - 4),
			Cpus:          0.02,
		})
	}
	if f.state == fsm.Offline {
		s.Nodes = nil
	}
	if !f.runActive() {
		return s
	}
	s.Run, s.ElapsedS = f.run.GetNumber(), float64(f.builtTicks)*tickTime.Seconds()
	f.addRunFigures(s)
	return s
}

// addRunFigures adds the figures of a run. The caller holds mu.
func (f *Fake) addRunFigures(s *ecsv1.Snapshot) {
	n, built := uint64(f.opt.Nodes), f.builtTicks*eventsPerTick
	wave := 0.0
	if f.state == fsm.Running {
		wave = 1 + 0.08*math.Sin(float64(f.tick)/17) + 0.03*math.Sin(float64(f.tick)/3)
	}
	rate := eventsPerTick / tickTime.Seconds() * wave
	s.Total = &ecsv1.Figures{
		EventRateHz:         rate,
		ThroughputBytesPerS: rate * bytesPerEvent,
		EventsBuilt:         built,
		MepsInFlight:        6 + f.tick%5,
		BytesBuilt:          built * bytesPerEvent,
		ChunksSent:          built * 3,
		ChunksResent:        f.builtTicks * 2,
		MepsBuilt:           built / packing,
	}
	for i, node := range s.GetNodes() {
		node.SentBytesPerS, node.BuiltBytesPerS = rate*bytesPerEvent/float64(n), rate*bytesPerEvent/float64(n)
		if f.excluded[node.GetName()] {
			node.BuiltBytesPerS = 0
		}
		node.Cpus = (0.8 + 0.05*float64(i)) * wave
		node.Counters = map[string]uint64{
			"ru.mfps_read": built / packing, "ru.phases": f.builtTicks * 20, "bu.meps_built": built / packing / n,
			"bu.meps_incomplete": f.builtTicks / 400,
		}
		f.addFilterFigures(node, i)
		for j := range f.opt.Nodes {
			share := (1 + 0.1*math.Sin(float64(3*i+5*j))) / float64(n*n)
			s.Traffic = append(s.Traffic, &ecsv1.Traffic{
				Ru:           uint32(i),
				Bu:           uint32(j),
				Bytes:        uint64(float64(built) * bytesPerEvent * share),
				BytesPerS:    rate * bytesPerEvent * share,
				ChunksResent: f.builtTicks * uint64(i*j) / 50,
			})
		}
		s.Holders = append(s.Holders, &ecsv1.Holder{
			Ru:      uint32(i),
			Epochs:  f.builtTicks * uint64(i+1),
			ByUsP50: int64(20 + 15*i),
			ByUsP99: int64(200 + 150*i),
		})
	}
	f.addTimeline(s)
	f.addSources(s, rate)
	s.LatencyParts = latencySteps(f.builtTicks)
	for i, edge := 0, int64(250); i < 12; i, edge = i+1, edge*3/2 {
		if c := uint64(float64(f.builtTicks) * 40 * math.Exp(-math.Pow(float64(i)-4, 2)/6)); c > 0 {
			s.Latency.Bars = append(s.Latency.Bars, &ecsv1.Bar{FromUs: edge, ToUs: edge * 3 / 2, Count: c})
		}
	}
	s.Latency.P50Us, s.Latency.P99Us, s.Latency.P999Us, s.Latency.MaxUs = 1400, 5200, 9800, 21_300
	s.Scheduler = &ecsv1.Scheduler{
		State:      "running",
		WaitingFor: "slots",
		Counters:   map[string]uint64{"tokens": built / packing, "cycles": f.builtTicks},
		Node:       "n0",
		Mode:       "wait",
		Queues: []*ecsv1.Queue{{Name: "ready", Depth: &tagnetv1.Depth{
			Now:      f.tick % 5,
			Max:      8,
			Capacity: 8,
			Crossed:  []uint64{9, 4, 2, 1},
			Full:     1,
			Usage:    15,
		}}},
		Groups: []*ecsv1.Group{{Nodes: f.Names(), Free: f.tick % 9, Slots: 8}},
	}
	for i, name := range f.Names() {
		s.Scheduler.Slots = append(s.Scheduler.Slots, &ecsv1.SlotUse{
			Bu:       uint32(i),
			Used:     (f.tick + uint64(i)) % 9,
			Slots:    8,
			Excluded: f.excluded[name],
		})
	}
	if f.tick%200 >= 100 && f.opt.Nodes > 1 {
		last := name(f.opt.Nodes - 1)
		s.Alarms = append(s.Alarms, &ecsv1.Alarm{
			Rule:      "slow-source",
			Component: last,
			Severity:  ecsv1.Severity_SEVERITY_WARNING,
			What:      "readout unit " + last[1:] + " holds phases: its source gives 40 % of the rate of the others",
			Advice:    "look at what feeds " + last + ", and at its processor",
			Since:     timestamppb.New(f.opt.Begin.Add(tickTime * 100)),
		})
	}
}

// addTimeline is the timeline: every readout unit sends to each builder unit in turn. The caller holds mu.
func (f *Fake) addTimeline(s *ecsv1.Snapshot) {
	const phase = 2000 // µs
	n := f.opt.Nodes
	for back := 11; back >= 0; back-- {
		p := f.builtTicks*20 - uint64(back)
		if f.builtTicks == 0 {
			return
		}
		at := s.GetAt().AsTime().UnixMicro() - int64(back+1)*phase
		for i := range n {
			begin := at + int64(30*i)
			s.Timeline = append(s.Timeline, &ecsv1.PhaseStep{
				Ru:         uint32(i),
				Phase:      p,
				Bu:         int32((i + int(p)) % n),
				Mep:        p / uint64(n),
				BeginUs:    begin,
				SentUs:     begin + 1200 + int64((i*7+int(p)*3)%5)*100,
				ReleasedUs: at + 1900,
			})
		}
	}
}
