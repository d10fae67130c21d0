package partition

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// records keeps the records of runs, from their number to what is read of them later, and counts how they came out.
type records struct {
	*control
	checks     *checks
	completion *completion

	mu            sync.Mutex               // guards what follows
	verdictCounts map[ecsv1.Verdict]uint64 // of runs on record that are over; nil before they are read
}

// openNext takes the next run number, and opens the record of the run.
func (rs *records) openNext(context.Context) error {
	if err := rs.clearDegraded(); err != nil {
		return err
	}
	return rs.openRecord(rs.currentState().nodeSet)
}

// openRecord takes a run number, before any node hears of the run.
func (rs *records) openRecord(nodeSet *nodes.NodeSet) error {
	a := rs.currentState().pendingCommand
	if err := rs.reserveNumber(nodeSet); err != nil {
		return err
	}
	rec, err := rs.cfg.Store.NextRun(&ecsv1.Run{
		StartedBy:  a.user,
		StartBegun: timestamppb.Now(),
		Remark:     a.remark,
		Scan:       a.scanName,
		Nodes:      nodeSet.Names(),
		Versions:   rs.versions(nodeSet),
		RunKey:     nodes.NewKey(),
	})
	if err != nil {
		return fmt.Errorf("no run can begin without its record: %w", err)
	}
	cfg := nodeSet.Configuration()
	cfg.RunNumber = rec.GetNumber()
	rec.Configuration, rec.ConfigurationHash = string(cfg.Effective()), nodeSet.Configuration().Hash()
	if err := rs.cfg.Store.Put(rec); err != nil {
		return fmt.Errorf("no run can begin without its record: %w", err)
	}
	rs.updateState(func(s *partitionState) { s.runRecord, s.lastStartFailure, s.preRunContext = rec, nil, nil })
	rs.saveState()
	return nil
}

// versions are those of the programs, by component.
func (rs *records) versions(nodeSet *nodes.NodeSet) map[string]string {
	v := map[string]string{nodes.ControlName: rs.cfg.Version}
	for i, rep := range nodeSet.Reports() {
		v[nodeSet.Names()[i]] = rep.GetVersion()
	}
	return v
}

// reserveNumber makes the next run number one that the output does not hold yet: another run control may have written
// there, or this one has lost its records.
func (rs *records) reserveNumber(nodeSet *nodes.NodeSet) error {
	if cfg := nodeSet.Configuration(); !cfg.WritesFiles() {
		return nil
	}
	now := rs.currentState()
	check, again := now.outputCheck, now.pendingCommand.user == recoveryUser
	rs.updateState(func(s *partitionState) { s.outputCheck = outputCheck{} })
	if check.nodeSet != nodeSet || again { // nobody asked before this start, or it has found other nodes since
		last, err := rs.checks.checkOutput(rs.ctx, nodeSet)
		if err != nil {
			return fmt.Errorf("the output cannot be written: %w", err)
		}
		check.lastRecordedRun = last
	}
	if known, err := rs.cfg.Store.LastRunNumber(); err == nil && known == 0 && check.lastRecordedRun > 0 {
		rs.publishf(severityWarning, "record", partitionComponent,
			"the run control has no record of any run, and the output holds runs up to %d: "+
				"the next one is numbered behind them; if records were kept elsewhere, end the run control and give it their "+
				"directory with --state", check.lastRecordedRun)
	}
	if check.lastRecordedRun == math.MaxUint32 {
		return fmt.Errorf("the output holds a run %d, and no number is left behind it: give another output, or "+
			"move that run away", check.lastRecordedRun)
	}
	return rs.cfg.Store.RaiseNextNumber(check.lastRecordedRun + 1)
}

// closeRun closes the record of a run with its report, and the scheduler.
func (rs *records) closeRun(run *nodes.Run, report *nodes.Report) {
	now := rs.currentState()
	if now.runRecord == nil {
		rs.updateState(func(s *partitionState) { s.run = nil })
		run.Shutdown()
		return
	}
	rs.publishClosing(now.runRecord.GetNumber(), report)
	for _, what := range report.UnreadBuffers() {
		rs.publishf(severityWarning, "output", partitionComponent, "%s", what)
	}
	for _, what := range report.NotChecked {
		rs.publishf(severityWarning, "run", partitionComponent, "not checked: %s", what)
	}
	var absent []absentNode
	if now.loadedConfig != nil {
		absent = now.loadedConfig.absent
	}
	over := time.Now()
	rs.changeRecord(func(r *ecsv1.Run) {
		if report.EndCause == ecsrun.EndControlLost {
			if alone := run.SelfStopCause(); alone != nil && r.Cause == nil {
				noteSelfStop(r, alone, over)
			}
			over, r.EndFound = endTime(r, run.EndedAt(), over)
		}
		fillRecord(r, report, absent, over)
	})
	rs.countVerdict(recordVerdict(report), 1)
	rs.control.mu.Lock()
	closed := rs.runRecord
	rs.run, rs.runRecord, rs.lastReport, rs.endedRun = nil, nil, report, run
	close(rs.nextRunClosed)
	rs.nextRunClosed = make(chan struct{})
	rs.control.mu.Unlock()
	rs.completion.noteUnread(closed)
	rs.saveState()
	rs.shutdownRun(run)
}

// shutdownRun ends the scheduler of a run when the store has its record: a control that is killed before finds a run
// with its scheduler, which can tell how it ended.
func (rs *records) shutdownRun(run *nodes.Run) {
	if !rs.pendingWrites.hasRecord(run.Number()) {
		run.Shutdown()
		return
	}
	rs.wg.Go(func() {
		tick := time.NewTicker(writeRetryInterval)
		defer tick.Stop()
		for rs.pendingWrites.hasRecord(run.Number()) {
			select {
			case <-tick.C:
			case <-rs.ctx.Done():
				run.Close()
				return
			}
		}
		run.Shutdown()
	})
}

// publishClosing tells how a run has ended.
func (rs *records) publishClosing(number uint32, report *nodes.Report) {
	if c := report.Cause; c != nil {
		rs.publishf(severityError, "fault", c.Component, "run %d was ended by %s: %s", number, c.Component, c.What)
		return
	}
	how := severityInfo
	if report.ExitStatus() != nodes.ExitGood || recordVerdict(report) != ecsv1.Verdict_VERDICT_GOOD {
		how = severityWarning
	}
	rs.publishf(how, "run", partitionComponent, "run %d is over (%s): %s, %d events built, %d incomplete%s", number,
		report.EndCause,
		verdictWord(recordVerdict(report)), report.EventsBuilt, report.EventsIncomplete, reasonClause(report.VerdictReason))
}

// countVerdicts reads once how the runs on record came out; from then on each that ends is added.
func (rs *records) countVerdicts() error {
	runs := map[ecsv1.Verdict]uint64{}
	for before := uint32(0); ; {
		list, err := rs.cfg.Store.List(before, 1000)
		if err != nil {
			return err
		}
		for _, r := range list.Runs {
			runs[r.GetVerdict()]++
			rs.completion.noteUnread(r)
			before = r.GetNumber()
		}
		if !list.HasOlder || len(list.Runs) == 0 {
			break
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.verdictCounts = runs
	return nil
}

// verdicts are how the runs on record came out that are over.
func (rs *records) verdicts() map[ecsv1.Verdict]uint64 {
	runs := map[ecsv1.Verdict]uint64{}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	maps.Copy(runs, rs.verdictCounts)
	return runs
}

// countVerdict counts a run more that came out so, or one less.
func (rs *records) countVerdict(v ecsv1.Verdict, runs int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.verdictCounts != nil {
		rs.verdictCounts[v] += uint64(runs)
	}
}

// closeOrphans gives every run that nobody builds any more its end.
func (rs *records) closeOrphans() error {
	open, err := rs.cfg.Store.OpenRuns()
	if err != nil {
		return err
	}
	now := rs.currentState().runRecord
	for _, r := range open.Runs {
		if r.GetNumber() == now.GetNumber() {
			continue
		}
		rec, err := rs.cfg.Store.Get(r.GetNumber())
		if err != nil {
			return err
		}
		closeOrphan(rec)
		rs.pendingWrites.putRecord(rec)
		rs.completion.noteUnread(rec)
	}
	return nil
}
