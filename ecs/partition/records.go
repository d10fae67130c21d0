package partition

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/node"
	"ringlet/node/cluster"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// records opens, writes and closes the records of runs, and counts their verdicts.
type records struct {
	*control
	checks     *checks
	completion *completion

	mu            sync.Mutex               // guards what follows
	verdictCounts map[ecsv1.Verdict]uint64 // of closed runs on record; nil before countVerdicts
}

// openNext opens the record of the next run.
func (rs *records) openNext(context.Context) error {
	if err := rs.clearDegraded(); err != nil {
		return err
	}
	return rs.openRecord(rs.currentState().nodeSet)
}

// openRecord takes the next run number and writes the record of the run, before any node is told of it.
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
		Roles:      rs.roles(nodeSet),
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

// versions are the program versions of control and nodes, by name.
func (rs *records) versions(nodeSet *nodes.NodeSet) map[string]string {
	v := map[string]string{nodes.ControlName: rs.cfg.Version}
	for i, rep := range nodeSet.Reports() {
		v[nodeSet.Names()[i]] = rep.GetVersion()
	}
	return v
}

// roles are the roles of members and spares, by name.
func (rs *records) roles(nodeSet *nodes.NodeSet) map[string]string {
	out, l := map[string]string{}, rs.currentState().loadedConfig
	for _, m := range rs.cfg.Members.Members() {
		switch roles := m.Meta.Roles; {
		case !roles.HoldsUnit() || l.hasMember(m.Name) || slices.Contains(nodeSet.Processes(), m.Name):
		case roles.Contains(cluster.Spare):
			out[m.Name] = "spare"
		default:
			out[m.Name] = fmt.Sprintf("spare (%s)", roles.Word())
		}
	}
	cfg := nodeSet.Configuration()
	for i, name := range nodeSet.Names() {
		out[name] = unitsOf(cfg.Roles()[i]).Word()
	}
	return out
}

// reserveNumber raises the next run number above those that the output holds: another run control may have written
// there, or this one may have lost its records.
func (rs *records) reserveNumber(nodeSet *nodes.NodeSet) error {
	if cfg := nodeSet.Configuration(); !cfg.WritesFiles() {
		return nil
	}
	now := rs.currentState()
	check, again := now.outputCheck, now.pendingCommand.user == recoveryUser
	rs.updateState(func(s *partitionState) { s.outputCheck = outputCheck{} })
	if check.nodeSet != nodeSet || again { // no mayStart before this start, or the NodeSet has changed since
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

// closeRun closes the record of a run with its report, and ends the scheduler.
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

// shutdownRun ends the scheduler of a run once the store has the closed record. If the control is killed earlier, the
// next one still finds the scheduler, which can report how the run ended.
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

// publishClosing publishes how a run has ended.
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

// countVerdicts counts the verdicts of the runs on record, once; countVerdict then adds those of new runs.
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

// verdicts is a copy of the counts of verdicts.
func (rs *records) verdicts() map[ecsv1.Verdict]uint64 {
	runs := map[ecsv1.Verdict]uint64{}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	maps.Copy(runs, rs.verdictCounts)
	return runs
}

// countVerdict adds runs, which may be negative, to the count of a verdict.
func (rs *records) countVerdict(v ecsv1.Verdict, runs int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.verdictCounts != nil {
		rs.verdictCounts[v] += uint64(runs)
	}
}

// closeOrphans closes the records of all open runs but the present one.
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

// writeState copies the state of a run's machine into the run's record.
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

// stateCause converts the cause of a record for the machine of the run; nil stays nil.
func stateCause(c *ecsv1.Cause) *ecsrun.Cause {
	if c == nil {
		return nil
	}
	out := &ecsrun.Cause{Fault: fault.FromCause(c), Code: c.GetCode()}
	out.Advice, out.Followed, out.At = c.GetAdvice(), c.GetFollowed(), recordTime(c.GetAt())
	return out
}

// recordTime converts a time of a record; nil becomes the zero time.
func recordTime(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}

// reasonClause is the end of a sentence with the reason; empty if there is none.
func reasonClause(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// recordVerdict is the verdict of a report, for the record.
func recordVerdict(r *nodes.Report) ecsv1.Verdict {
	return ecsv1.Verdict(ecsv1.Verdict_value["VERDICT_"+r.VerdictWord()])
}

// verdictWord is a verdict in one word, such as GOOD.
func verdictWord(v ecsv1.Verdict) string { return strings.TrimPrefix(v.String(), "VERDICT_") }

// causeCodeAbsent is the code of the cause of a run in which a member took no part.
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
		r.Cause = recordCause(*x, ecsrun.CodeLoss, c.GetAt()) // by then a closer observation is known
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

// degradeVerdict makes the verdict of a run DEGRADED in which nothing was lost but a member took no part.
func degradeVerdict(r *ecsv1.Run) {
	r.Verdict = ecsv1.Verdict_VERDICT_DEGRADED
	why := r.GetCause().GetComponent() + ": " + r.GetCause().GetWhat()
	if r.VerdictWhy != "" {
		why += "; " + r.VerdictWhy
	}
	r.VerdictWhy = why
}

// fillResults copies events, losses, accounts and unread output from a report into the record.
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

// noteSelfStop notes in the record that the nodes began to end the run while the control was gone, and when: by the
// node's clock, but not after found.
func noteSelfStop(r *ecsv1.Run, stopped *nodev1.Cause, found time.Time) {
	at := timestamppb.New(clampTime(r.GetStartDone(), time.UnixMicro(stopped.GetAtUs()), found))
	r.Cause = &ecsv1.Cause{
		Component: nodes.ControlName,
		What:      "the control was gone for longer than the nodes build on without it",
		Code:      ecsrun.EndControlLost,
		Evidence:  stopped.GetWhat(),
		At:        at,
	}
	if r.StopBegun == nil { // else the run was being stopped already
		r.StopBegun = at
	}
}

// endTime is when a run was over that its nodes ended while the control was gone: as they report, or found if they do
// not report a time, or a later one since their clock is ahead.
func endTime(r *ecsv1.Run, reported, found time.Time) (at time.Time, isFound bool) {
	if reported.IsZero() || reported.After(found) {
		reported, isFound = found, true
	}
	return clampTime(r.GetStopBegun(), reported, found), isFound
}

// clampTime bounds a time by a node's clock: not before first, and not after found.
func clampTime(first *timestamppb.Timestamp, reported, found time.Time) time.Time {
	if reported.After(found) {
		reported = found
	}
	if t := first.AsTime(); reported.Before(t) {
		return t
	}
	return reported
}

// noteEndUnknown notes in the record that a run was over when the control came back, and which nodes cannot report how
// it ended.
func noteEndUnknown(r *ecsv1.Run, missing []string) {
	r.EndFound = true
	if r.GetCause() != nil {
		return // the first cause stays
	}
	r.Cause = unseenEndCause("the run was over when the control came back, and how it ended cannot be reported any " +
		"more by " + strings.Join(missing, ", "))
}

// closeAbandoned closes the record of a run of which nothing more can be known. A run that had begun and that no fault
// had struck may have ended in good order: its verdict is INCOMPLETE and not ABORTED.
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

// unseenEndCause is the cause of an end that happened while the control was gone.
func unseenEndCause(what string) *ecsv1.Cause {
	return &ecsv1.Cause{
		Component: nodes.ControlName,
		What:      what,
		Evidence:  "found when the control came back",
		Code:      ecsrun.EndControlLost,
		At:        timestamppb.Now(),
	}
}
