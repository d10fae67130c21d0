package partition

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"ringlet/ecs/diagnosis"
	"ringlet/ecs/figures"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Snapshot is the live picture, made twice a second, with so many samples of what was before at most.
func (p *Partition) Snapshot(history int) *ecsv1.Snapshot {
	now := p.currentState()
	s, samples := now.snapshot, now.samples
	if s == nil {
		s = &ecsv1.Snapshot{State: p.runner.Status().State.String()}
	}
	if history > 0 {
		s = proto.CloneOf(s) // others are reading it
		s.History = samples[max(0, len(samples)-history):]
	}
	return s
}

// snapshotInterval is how often the picture is made: as often as nodes report.
const snapshotInterval = 500 * time.Millisecond

// updateSnapshot makes the live picture.
func (p *Partition) updateSnapshot() {
	picture := p.makeSnapshot(time.Now())
	p.updateState(func(s *partitionState) { s.snapshot, s.samples = picture, p.figures.Samples(figures.HistoryDepth) })
}

// makeSnapshot reads everything once. One goroutine calls it.
func (p *Partition) makeSnapshot(now time.Time) *ecsv1.Snapshot {
	state := p.currentState()
	crew, run := state.crew, state.run
	r := figures.Reading{At: now, State: p.runner.Status().State.String()}
	if crew != nil {
		for _, n := range crew.Statuses() {
			one := figures.Node{Member: n.Member, Report: n.Report, Received: n.Received}
			switch {
			case n.LostReason != "":
				one.State = "lost"
			case n.Withdrawn:
				one.State = figures.StateWithdrawn
			}
			r.Nodes = append(r.Nodes, one)
		}
		r.SchedulerNode, r.Sources = crew.TagnetNode(), nodes.LiveSources(crew.Configuration())
	}
	if run != nil && !run.StartedAt().IsZero() {
		st := run.Stats()
		r.Run, r.RunBegan, r.Scheduler = run.Number(), run.StartedAt(), &st
	}
	s := p.figures.Add(&r)
	p.diagnose(s, crew)
	return s
}

// memberFacts of the nodes that are present, for the check of a configuration: those of a Crew have said what they
// have, others are asked.
func (p *Partition) memberFacts(present map[string]cluster.Member) []config.NodeFacts {
	known := map[string]config.NodeFacts{}
	crew := p.currentState().crew
	if crew != nil {
		for _, f := range crew.Facts() {
			known[f.Name] = f
		}
	}
	var strangers []cluster.Member
	units := cluster.UnitNames(present)
	for _, name := range units {
		if _, ok := known[name]; !ok {
			strangers = append(strangers, present[name])
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.timeoutFor(factsTimeout))
	defer cancel()
	for _, f := range nodes.RequestFacts(ctx, p.cfg.Identity, p.cfg.Term, strangers) {
		known[f.Name] = f
	}
	facts := []config.NodeFacts{}
	for _, name := range units {
		f, ok := known[name]
		if !ok {
			f.Name = name // it does not answer now: nothing is refused for that
		}
		facts = append(facts, f)
	}
	return facts
}

// factsTimeout is how long nodes may take to say what they have.
const factsTimeout = 2 * time.Second

// diagnose adds what is wrong to a snapshot, and tells of what is new. One goroutine calls it.
func (p *Partition) diagnose(s *ecsv1.Snapshot, crew *nodes.Crew) {
	if crew != p.watchedCrew || p.watcher == nil {
		p.watchedCrew, p.watcher = crew, diagnosis.New(p.diagnosisSettings(crew))
	}
	alarms, changes := p.watcher.Update(s, p.Status().GetRoot())
	s.Alarms = alarms
	if a := p.pendingWrites.alarm(); a != nil {
		s.Alarms = append([]*ecsv1.Alarm{a}, alarms...)
	}
	for _, c := range changes {
		if a := c.Alarm; c.Cleared {
			p.publishf(severityInfo, "alarm", a.GetComponent(), "over: %s", a.GetWhat())
		} else {
			p.publishf(a.GetSeverity(), "alarm", a.GetComponent(), "%s. %s", a.GetWhat(), a.GetAdvice())
			if a.GetRule() == diagnosis.RuleSourceApart { // where there is no page, and whatever becomes of the run
				p.log.Warn("sources share no event number: nothing that is built is whole", "err", a.GetWhat())
			}
		}
	}
}

// diagnosisSettings are what the rules must know beforehand.
func (p *Partition) diagnosisSettings(crew *nodes.Crew) diagnosis.Settings {
	known := diagnosis.Settings{Version: p.cfg.Version}
	if crew != nil {
		_, known.PhaseTime = crew.Configuration().Phases()
	}
	return known
}
