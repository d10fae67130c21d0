package partition

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/nodes"
	"ringlet/node"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// openRecord takes a run number, before any node hears of the run.
func (p *Partition) openRecord(crew *nodes.Crew) error {
	a := p.currentState().pendingCommand
	if err := p.reserveNumber(crew); err != nil {
		return err
	}
	rec, err := p.cfg.Store.NextRun(&ecsv1.Run{
		StartedBy:  a.user,
		StartBegun: timestamppb.Now(),
		Remark:     a.remark,
		Scan:       a.scanName,
		Nodes:      crew.Names(),
		Versions:   p.versions(crew),
		RunKey:     nodes.NewKey(),
	})
	if err != nil {
		return fmt.Errorf("no run can begin without its record: %w", err)
	}
	cfg := crew.Configuration()
	cfg.RunNumber = rec.GetNumber()
	rec.Configuration, rec.ConfigurationHash = string(cfg.Effective()), crew.Configuration().Hash()
	if err := p.cfg.Store.Put(rec); err != nil {
		return fmt.Errorf("no run can begin without its record: %w", err)
	}
	p.updateState(func(s *partitionState) { s.runRecord, s.lastStartFailure, s.preRunContext = rec, nil, nil })
	p.saveState()
	return nil
}

// versions are those of the programs, by component.
func (p *Partition) versions(crew *nodes.Crew) map[string]string {
	v := map[string]string{nodes.ControlName: p.cfg.Version}
	for i, rep := range crew.Reports() {
		v[crew.Names()[i]] = rep.GetVersion()
	}
	return v
}

// noteBegun notes that every node is Running.
func (p *Partition) noteBegun(run *nodes.Run) {
	p.changeRecord(func(r *ecsv1.Run) { r.StartDone = timestampOrNil(run.StartedAt()) })
	p.saveState()
	p.publishf(severityInfo, "run", partitionComponent, "run %d has begun", run.Number())
}

// noteStopping notes when the end of the run was asked for, or struck, and what struck, before anybody hears of it.
// Only the first time counts.
func (p *Partition) noteStopping(why string, struck *ecsv1.Cause) {
	by := p.currentState().pendingCommand.user
	p.changeRecord(func(r *ecsv1.Run) {
		if r.StopBegun != nil {
			return
		}
		r.StopBegun, r.End = timestamppb.Now(), why
		if struck != nil {
			r.Cause = struck
		}
		if why == nodes.EndStopped {
			r.StoppedBy = by
		}
	})
}

// changeRecord changes the record of the present run, if there is one.
func (p *Partition) changeRecord(f func(*ecsv1.Run)) {
	p.mu.Lock()
	if p.runRecord == nil {
		p.mu.Unlock()
		return
	}
	f(p.runRecord)
	rec := proto.CloneOf(p.runRecord)
	p.mu.Unlock()
	p.pendingWrites.putRecord(rec)
}

// closeRun closes the record of a run with its report, and the scheduler.
func (p *Partition) closeRun(run *nodes.Run, report *nodes.Report) {
	now := p.currentState()
	if now.runRecord == nil {
		run.Shutdown()
		return
	}
	p.publishClosing(now.runRecord.GetNumber(), report)
	for _, what := range report.UnreadBuffers() {
		p.publishf(severityWarning, "output", partitionComponent, "%s", what)
	}
	for _, what := range report.NotChecked {
		p.publishf(severityWarning, "run", partitionComponent, "not checked: %s", what)
	}
	var absent []absentNode
	if now.loadedConfig != nil {
		absent = now.loadedConfig.absent
	}
	over := time.Now()
	p.changeRecord(func(r *ecsv1.Run) {
		if report.EndCause == nodes.EndControlLost {
			if alone := run.SelfStopCause(); alone != nil && r.Cause == nil {
				noteSelfStop(r, alone, over)
			}
			over, r.EndFound = endTime(r, run.EndedAt(), over)
		}
		fillRecord(r, report, absent, over)
	})
	p.mu.Lock()
	if p.verdictCounts != nil {
		p.verdictCounts[recordVerdict(report)]++
	}
	closed := p.runRecord
	p.runRecord, p.lastReport, p.endedRun = nil, report, run
	close(p.nextRunClosed)
	p.nextRunClosed = make(chan struct{})
	p.mu.Unlock()
	p.noteUnread(closed)
	p.saveState()
	p.shutdownRun(run)
}

// shutdownRun ends the scheduler of a run when the store has its record: a control that is killed before finds a run
// with its scheduler, which can tell how it ended.
func (p *Partition) shutdownRun(run *nodes.Run) {
	if !p.pendingWrites.hasRecord(run.Number()) {
		run.Shutdown()
		return
	}
	p.wg.Go(func() {
		tick := time.NewTicker(writeRetryInterval)
		defer tick.Stop()
		for p.pendingWrites.hasRecord(run.Number()) {
			select {
			case <-tick.C:
			case <-p.ctx.Done():
				run.Close()
				return
			}
		}
		run.Shutdown()
	})
}

// publishClosing tells how a run has ended.
func (p *Partition) publishClosing(number uint32, report *nodes.Report) {
	if c := report.Cause; c != nil {
		p.publishf(severityError, "fault", c.Component, "run %d was ended by %s: %s", number, c.Component, c.What)
		return
	}
	how := severityInfo
	if report.ExitStatus() != nodes.ExitGood || recordVerdict(report) != ecsv1.Verdict_VERDICT_GOOD {
		how = severityWarning
	}
	p.publishf(how, "run", partitionComponent, "run %d is over (%s): %s, %d events built, %d incomplete%s", number,
		report.EndCause,
		verdictWord(recordVerdict(report)), report.EventsBuilt, report.EventsIncomplete, reasonClause(report.VerdictReason))
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

// causeCodeToleratedLoss is the code of the cause that the run goes on without a node.
const causeCodeToleratedLoss = "loss"

// causeCodeAbsent is the code of the cause that a member took no part.
const causeCodeAbsent = "absent"

// fillRecord completes the record of a run that is over.
func fillRecord(r *ecsv1.Run, report *nodes.Report, absent []absentNode, now time.Time) {
	r.Verdict, r.StopDone = recordVerdict(report), timestamppb.New(now)
	r.End = report.EndCause
	if r.StopBegun == nil {
		r.StopBegun = r.StopDone
	}
	if x, c := report.FirstLoss, r.GetCause(); x != nil && c.GetCode() == causeCodeToleratedLoss &&
		c.GetComponent() == x.Component {
		r.Cause = recordCause(*x, causeCodeToleratedLoss, c.GetAt()) // who is closer to it has spoken since
	}
	if c := report.Cause; c != nil {
		seen := r.StopBegun
		if at := r.GetCause().GetAt(); at != nil {
			seen = at
		}
		r.Cause = recordCause(*c, "fault", seen)
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
	r.EventsIncomplete, r.BytesBuilt = report.EventsIncomplete, report.BytesBuilt
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
		Code:      nodes.EndControlLost,
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
	fault := r.GetEnd() == nodes.EndFault
	if r.GetStartDone() == nil || fault {
		r.Verdict = ecsv1.Verdict_VERDICT_ABORTED
	}
	if r.GetEnd() == "" {
		r.End = nodes.EndControlLost
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
		Code:      nodes.EndControlLost,
		At:        timestamppb.Now(),
	}
}
