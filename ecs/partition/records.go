package partition

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/node"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
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
	rs.publishf(how, "run", partitionComponent, "run %d is over (%s): %s, %d events built%s", number,
		report.EndCause,
		verdictWord(recordVerdict(report)), report.EventsBuilt, reasonClause(report.VerdictReason))
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

// writeState writes into the record of a run how that stands, before anybody hears of it.
func writeState(r *ecsv1.Run, now ecsrun.State) {
	if !now.Begun.IsZero() {
		r.StartDone = timestamppb.New(now.Begun)
	}
	if !now.Ending.IsZero() {
		r.StopBegun, r.End = timestamppb.New(now.Ending), now.End
		r.StoppedBy = cmp.Or(now.StoppedBy, r.GetStoppedBy())
	}
	if c := now.Cause; c != nil {
		r.Cause = recordCause(c.Fault, c.Code, timestampOrNil(c.At))
	}
}

// stateCause is the cause that a record has, as the machine of its run takes it; nil if it has none.
func stateCause(c *ecsv1.Cause) *ecsrun.Cause {
	if c == nil {
		return nil
	}
	out := &ecsrun.Cause{Fault: fault.FromCause(c), Code: c.GetCode()}
	out.Advice, out.Followed, out.At = c.GetAdvice(), c.GetFollowed(), recordTime(c.GetAt())
	return out
}

// recordTime is a time of a record; zero where it has none.
func recordTime(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}

// reasonClause is the end of a sentence that says why, if there is something to say.
func reasonClause(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// recordVerdict is what a run was worth.
func recordVerdict(r *nodes.Report) ecsv1.Verdict {
	return ecsv1.Verdict(ecsv1.Verdict_value["VERDICT_"+r.VerdictWord()])
}

// verdictWord is a verdict for people.
func verdictWord(v ecsv1.Verdict) string { return strings.TrimPrefix(v.String(), "VERDICT_") }

// causeCodeAbsent is the code of the cause that a member took no part.
const causeCodeAbsent = "absent"

// fillRecord completes the record of a run that is over.
func fillRecord(r *ecsv1.Run, report *nodes.Report, absent []absentNode, now time.Time) {
	r.Verdict, r.StopDone = recordVerdict(report), timestamppb.New(now)
	r.End = report.EndCause
	if r.StopBegun == nil {
		r.StopBegun = r.StopDone
	}
	if x, c := report.FirstLoss, r.GetCause(); x != nil && c.GetCode() == ecsrun.CodeLoss &&
		c.GetComponent() == x.Component {
		r.Cause = recordCause(*x, ecsrun.CodeLoss, c.GetAt()) // who is closer to it has spoken since
	}
	if c := report.Cause; c != nil {
		seen := r.StopBegun
		if at := r.GetCause().GetAt(); at != nil {
			seen = at
		}
		r.Cause = recordCause(*c, ecsrun.CodeFault, seen)
	} else if report.BadInput != "" {
		r.Cause = &ecsv1.Cause{
			Component: "input",
			Part:      "input",
			What:      report.BadInput,
			Code:      "bad_input",
		}
	} else if report.BrokenSource != "" && r.Cause == nil {
		r.Cause = &ecsv1.Cause{
			Component: "input",
			Part:      "input",
			What:      report.BrokenSource,
			Code:      "broken_source",
		}
	} else if report.Unmerged {
		problems := report.RecordedOutput.Problems
		r.Cause = &ecsv1.Cause{
			Component: nodes.ControlName,
			Part:      node.SubsystemOutput,
			What:      problems[len(problems)-1],
			Code:      "not_merged",
		}
	}
	good := r.Verdict == ecsv1.Verdict_VERDICT_GOOD
	if len(absent) > 0 && (good || r.Cause == nil) {
		r.Cause = &ecsv1.Cause{Component: absent[0].Name, What: "it took no part: " + absent[0].Why, Code: causeCodeAbsent}
	}
	r.BytesBuilt = report.BytesBuilt
	r.GoodputGbps, r.EventRateHz, r.DurationS = report.GoodputGbps, report.EventRateHz, report.DurationS
	fillResults(r, report)
	if len(absent) > 0 && good {
		degradeVerdict(r)
	}
}

// degradeVerdict is the verdict of a run that lost nothing, and in which a member took no part: never GOOD.
func degradeVerdict(r *ecsv1.Run) {
	r.Verdict = ecsv1.Verdict_VERDICT_DEGRADED
	why := r.GetCause().GetComponent() + ": " + r.GetCause().GetWhat()
	if r.VerdictWhy != "" {
		why += "; " + r.VerdictWhy
	}
	r.VerdictWhy = why
}

// fillResults puts into a record what its report says of events, losses, accounts and output.
func fillResults(r *ecsv1.Run, report *nodes.Report) {
	r.VerdictWhy, r.Losses = report.VerdictReason, nil
	for _, l := range report.Losses {
		r.Losses = append(r.Losses, &ecsv1.Loss{
			What:      l.What,
			Of:        l.Subject,
			Count:     l.Count,
			Unit:      l.Unit,
			AllowedBy: l.AllowedBy,
			Tolerated: l.Tolerated,
		})
	}
	r.EventsBuilt, r.Accounts, r.Unread = report.EventsBuilt, nil, nil
	for _, a := range report.Accounts {
		r.Accounts = append(r.Accounts, &ecsv1.Account{
			Name:  a.Name,
			Left:  a.Left,
			Right: a.Right,
			Ok:    a.OK,
		})
	}
	if report.RecordedOutput != nil {
		r.Unread = report.RecordedOutput.UnreadNodes
	}
	if text, err := json.Marshal(report); err == nil {
		r.ReportJson = string(text)
	}
}

// noteSelfStop notes that the nodes have begun to end a run while no control was there, and when: at the latest when
// that was found.
func noteSelfStop(r *ecsv1.Run, stopped *nodev1.Cause, found time.Time) {
	at := timestamppb.New(clampTime(r.GetStartDone(), time.UnixMicro(stopped.GetAtUs()), found))
	r.Cause = &ecsv1.Cause{
		Component: nodes.ControlName,
		What:      "the control was gone for longer than the nodes build on without it",
		Code:      ecsrun.EndControlLost,
		Evidence:  stopped.GetWhat(),
		At:        at,
	}
	if r.StopBegun == nil { // else it was being stopped already
		r.StopBegun = at
	}
}

// endTime is when a run was over that its nodes ended while no control was there: as they tell, or when that was found
// where they cannot tell or tell a later time, by a clock that is ahead.
func endTime(r *ecsv1.Run, reported, found time.Time) (at time.Time, isFound bool) {
	if reported.IsZero() || reported.After(found) {
		reported, isFound = found, true
	}
	return clampTime(r.GetStopBegun(), reported, found), isFound
}

// clampTime keeps what a node tells by its clock from coming before what it came after, and after it was found.
func clampTime(first *timestamppb.Timestamp, reported, found time.Time) time.Time {
	if reported.After(found) {
		reported = found
	}
	if t := first.AsTime(); reported.Before(t) {
		return t
	}
	return reported
}

// noteEndUnknown notes that a run was over when the control came back, and who cannot tell any more how it ended.
func noteEndUnknown(r *ecsv1.Run, missing []string) {
	r.EndFound = true
	if r.GetCause() != nil {
		return // what was first is what counts
	}
	r.Cause = unseenEndCause("the run was over when the control came back, and how it ended cannot be told any more by " +
		strings.Join(missing, ", "))
}

// closeAbandoned closes the record of a run of which nothing more can be known. One that had begun, and that no fault
// had struck, may have ended in good order: it is INCOMPLETE, since nobody can tell, and not ABORTED.
func closeAbandoned(r *ecsv1.Run, why string) {
	now := timestamppb.Now()
	r.Verdict, r.StopDone, r.EndFound = ecsv1.Verdict_VERDICT_INCOMPLETE, now, true
	fault := r.GetEnd() == ecsrun.EndFault
	if r.GetStartDone() == nil || fault {
		r.Verdict = ecsv1.Verdict_VERDICT_ABORTED
	}
	if r.GetEnd() == "" {
		r.End = ecsrun.EndControlLost
	}
	if r.StopBegun == nil {
		r.StopBegun = now
	}
	if !fault || r.GetCause() == nil {
		r.Cause = unseenEndCause(why)
	}
	r.VerdictWhy = r.GetCause().GetComponent() + ": " + r.GetCause().GetWhat()
	r.Unread = fileWriters(r)
}

// unseenEndCause is the cause of an end that no control has seen.
func unseenEndCause(what string) *ecsv1.Cause {
	return &ecsv1.Cause{
		Component: nodes.ControlName,
		What:      what,
		Evidence:  "found when the control came back",
		Code:      ecsrun.EndControlLost,
		At:        timestamppb.Now(),
	}
}
