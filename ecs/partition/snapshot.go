package partition

import (
	"time"

	"google.golang.org/protobuf/proto"

	"ringlet/ecs/diagnosis"
	"ringlet/ecs/figures"
	"ringlet/ecs/partition/nodes"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Snapshot is the present state of the partition in figures, made every snapshotInterval, with at most history samples
// of earlier ones.
func (p *Partition) Snapshot(history int) *ecsv1.Snapshot {
	now := p.currentState()
	s, samples := now.snapshot, now.samples
	if s == nil {
		s = &ecsv1.Snapshot{State: p.runner.Status().State.String()}
	}
	if history > 0 {
		s = proto.CloneOf(s) // other goroutines read it
		s.History = samples[max(0, len(samples)-history):]
	}
	return s
}

// snapshotInterval is the time between two snapshots: that between two reports of a node.
const snapshotInterval = 500 * time.Millisecond

// snapshots makes the snapshots. It is for one goroutine at a time.
type snapshots struct {
	*control
	slow           *slowKeeper
	figures        *figures.Builder
	watcher        *diagnosis.Watcher
	watchedNodeSet *nodes.NodeSet // the one that the watcher was made for
}

// update makes the next snapshot; root is the status tree.
func (p *snapshots) update(root *ecsv1.Component) {
	picture := p.makeSnapshot(time.Now(), root)
	p.updateState(func(s *partitionState) { s.snapshot, s.samples = picture, p.figures.Samples(figures.HistoryDepth) })
}

// makeSnapshot reads the reports of nodes and scheduler, and makes a snapshot of them.
func (p *snapshots) makeSnapshot(now time.Time, root *ecsv1.Component) *ecsv1.Snapshot {
	state := p.currentState()
	nodeSet, run := state.nodeSet, state.run
	r := figures.Reading{At: now, State: p.runner.Status().State.String()}
	if nodeSet != nil {
		for _, n := range nodeSet.Statuses() {
			one := figures.Node{Member: n.Member, Report: n.Report, Received: n.Received}
			switch {
			case n.Presence.Gone != "":
				one.State = "lost"
			case n.Presence.Withdrawn != "":
				one.State = figures.StateWithdrawn
			}
			r.Nodes = append(r.Nodes, one)
		}
		r.SchedulerNode, r.Sources = nodeSet.TagnetNode(), nodes.LiveSources(nodeSet.Configuration())
	}
	if run != nil && !run.State().Begun.IsZero() {
		st := run.Stats()
		r.Run, r.RunBegan, r.Scheduler = run.Number(), run.State().Begun, &st
		r.SchedulerNode, r.Drift = run.SchedulerNode(), run.Drift()
	}
	s := p.figures.Add(&r)
	s.SlowValues = p.slow.lastValues()
	p.diagnose(s, root, nodeSet)
	return s
}

// diagnose adds the alarms to a snapshot, and publishes those that are new or over.
func (p *snapshots) diagnose(s *ecsv1.Snapshot, root *ecsv1.Component, nodeSet *nodes.NodeSet) {
	if nodeSet != p.watchedNodeSet || p.watcher == nil {
		p.watchedNodeSet, p.watcher = nodeSet, diagnosis.New(p.diagnosisSettings(nodeSet))
	}
	alarms, changes := p.watcher.Update(s, root)
	s.Alarms = alarms
	if a := p.pendingWrites.alarm(); a != nil {
		s.Alarms = append([]*ecsv1.Alarm{a}, alarms...)
	}
	for _, c := range changes {
		if a := c.Alarm; c.Cleared {
			p.publishf(severityInfo, "alarm", a.GetComponent(), "over: %s", a.GetWhat())
		} else {
			p.publishf(a.GetSeverity(), "alarm", a.GetComponent(), "%s. %s", a.GetWhat(), a.GetAdvice())
			switch a.GetRule() { // for users without a page
			case diagnosis.RuleSourceApart:
				p.log.Warn("sources share no event number: nothing that is built is whole", "err", a.GetWhat())
			case diagnosis.RuleSourceDrift:
				p.log.Warn("a source has slipped: events have fragments of different triggers", "err", a.GetWhat())
			}
		}
	}
}

// diagnosisSettings are the settings of the rules for a NodeSet.
func (p *snapshots) diagnosisSettings(nodeSet *nodes.NodeSet) diagnosis.Settings {
	known := diagnosis.Settings{Version: p.cfg.Version}
	if nodeSet != nil {
		_, known.PhaseTime = nodeSet.Configuration().Phases()
	}
	return known
}
