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
	a := p.now().asked
	if err := p.freeNumber(crew); err != nil {
		return err
	}
	rec, err := p.cfg.Store.NextRun(&ecsv1.Run{
		StartedBy:  a.by,
		StartBegun: timestamppb.Now(),
		Remark:     a.remark,
		Scan:       a.scan,
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
	p.set(func(s *standing) { s.rec, s.noRun, s.towards = rec, nil, nil })
	p.remember()
	return nil
}

// versions are those of the programs, by component.
func (p *Partition) versions(crew *nodes.Crew) map[string]string {
	v := map[string]string{nodes.Name: p.cfg.Version}
	for i, rep := range crew.Reports() {
		v[crew.Names()[i]] = rep.GetVersion()
	}
	return v
}

// began notes that every node is Running.
func (p *Partition) began(run *nodes.Run) {
	p.change(func(r *ecsv1.Run) { r.StartDone = stamp(run.StartedAt()) })
	p.remember()
	p.say(info, "run", ownName, "run %d has begun", run.Number())
}

// stopping notes when the end of the run was asked for, or struck, and what struck, before anybody hears of it. Only
// the first time counts.
func (p *Partition) stopping(why string, struck *ecsv1.Cause) {
	by := p.now().asked.by
	p.change(func(r *ecsv1.Run) {
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

// change changes the record of the present run, if there is one.
func (p *Partition) change(f func(*ecsv1.Run)) {
	p.mu.Lock()
	if p.rec == nil {
		p.mu.Unlock()
		return
	}
	f(p.rec)
	rec := proto.CloneOf(p.rec)
	p.mu.Unlock()
	p.unwritten.record(rec)
}

// closeRun closes the record of a run with its report, and the scheduler.
func (p *Partition) closeRun(run *nodes.Run, report *nodes.Report) {
	now := p.now()
	if now.rec == nil {
		run.Over()
		return
	}
	p.closing(now.rec.GetNumber(), report)
	for _, what := range report.Unread() {
		p.say(warning, "output", ownName, "%s", what)
	}
	for _, what := range report.NotChecked {
		p.say(warning, "run", ownName, "not checked: %s", what)
	}
	var absent []absentNode
	if now.loaded != nil {
		absent = now.loaded.absent
	}
	over := time.Now()
	p.change(func(r *ecsv1.Run) {
		if report.EndCause == nodes.EndControlLost {
			if alone := run.StoppedByThemselves(); alone != nil && r.Cause == nil {
				endedAlone(r, alone, over)
			}
			over, r.EndFound = overAt(r, run.EndedAt(), over)
		}
		fill(r, report, absent, over)
	})
	p.mu.Lock()
	if p.verdicts != nil {
		p.verdicts[verdict(report)]++
	}
	closed := p.rec
	p.rec, p.last, p.ended = nil, report, run
	close(p.closed)
	p.closed = make(chan struct{})
	p.mu.Unlock()
	p.misses(closed)
	p.remember()
	p.over(run)
}

// over ends the scheduler of a run when the store has its record: a control that is killed before finds a run with its
// scheduler, which can tell how it ended.
func (p *Partition) over(run *nodes.Run) {
	if !p.unwritten.holds(run.Number()) {
		run.Over()
		return
	}
	p.wg.Go(func() {
		tick := time.NewTicker(writeAgain)
		defer tick.Stop()
		for p.unwritten.holds(run.Number()) {
			select {
			case <-tick.C:
			case <-p.ctx.Done():
				run.Close()
				return
			}
		}
		run.Over()
	})
}

// closing tells how a run has ended.
func (p *Partition) closing(number uint32, report *nodes.Report) {
	if c := report.Cause; c != nil {
		p.say(bad, "fault", c.Component, "run %d was ended by %s: %s", number, c.Component, c.What)
		return
	}
	how := info
	if report.Verdict() != nodes.Good || verdict(report) != ecsv1.Verdict_VERDICT_GOOD {
		how = warning
	}
	p.say(how, "run", ownName, "run %d is over (%s): %s, %d events built, %d incomplete%s", number, report.EndCause,
		word(verdict(report)), report.EventsBuilt, report.EventsIncomplete, after(report.Why))
}

// after is the end of a sentence that says why, if there is something to say.
func after(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// verdict is what a run was worth.
func verdict(r *nodes.Report) ecsv1.Verdict {
	return ecsv1.Verdict(ecsv1.Verdict_value["VERDICT_"+r.Word()])
}

// word is a verdict for people.
func word(v ecsv1.Verdict) string { return strings.TrimPrefix(v.String(), "VERDICT_") }

// codeLoss is the code of the cause that the run goes on without a node.
const codeLoss = "loss"

// causeAbsent is the code of the cause that a member took no part.
const causeAbsent = "absent"

// fill completes the record of a run that is over.
func fill(r *ecsv1.Run, report *nodes.Report, absent []absentNode, now time.Time) {
	r.Verdict, r.StopDone = verdict(report), timestamppb.New(now)
	r.End = report.EndCause
	if r.StopBegun == nil {
		r.StopBegun = r.StopDone
	}
	if x, c := report.FirstLoss, r.GetCause(); x != nil && c.GetCode() == codeLoss && c.GetComponent() == x.Component {
		r.Cause = inRecord(*x, codeLoss, c.GetAt()) // who is closer to it has spoken since
	}
	if c := report.Cause; c != nil {
		seen := r.StopBegun
		if at := r.GetCause().GetAt(); at != nil {
			seen = at
		}
		r.Cause = inRecord(*c, "fault", seen)
	} else if report.BadInput != "" {
		r.Cause = &ecsv1.Cause{
			Component: "input",
			Part:      "input",
			What:      report.BadInput,
			Code:      "bad_input",
		}
	} else if report.Broken != "" && r.Cause == nil {
		r.Cause = &ecsv1.Cause{
			Component: "input",
			Part:      "input",
			What:      report.Broken,
			Code:      "broken_source",
		}
	} else if report.Unmerged {
		problems := report.Recorded.Problems
		r.Cause = &ecsv1.Cause{
			Component: nodes.Name,
			Part:      node.PartOutput,
			What:      problems[len(problems)-1],
			Code:      "not_merged",
		}
	}
	good := r.Verdict == ecsv1.Verdict_VERDICT_GOOD
	if len(absent) > 0 && (good || r.Cause == nil) {
		r.Cause = &ecsv1.Cause{Component: absent[0].Name, What: "it took no part: " + absent[0].Why, Code: causeAbsent}
	}
	r.EventsIncomplete, r.BytesBuilt = report.EventsIncomplete, report.BytesBuilt
	r.GoodputGbps, r.EventRateHz, r.DurationS = report.GoodputGbps, report.EventRateHz, report.DurationS
	tell(r, report)
	if len(absent) > 0 && good {
		degrade(r)
	}
}

// degrade is the verdict of a run that lost nothing, and in which a member took no part: never GOOD.
func degrade(r *ecsv1.Run) {
	r.Verdict = ecsv1.Verdict_VERDICT_DEGRADED
	why := r.GetCause().GetComponent() + ": " + r.GetCause().GetWhat()
	if r.VerdictWhy != "" {
		why += "; " + r.VerdictWhy
	}
	r.VerdictWhy = why
}

// tell puts into a record what its report says of events, losses, accounts and output.
func tell(r *ecsv1.Run, report *nodes.Report) {
	r.VerdictWhy, r.Losses = report.Why, nil
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
	if report.Recorded != nil {
		r.Unread = report.Recorded.Unread
	}
	if text, err := json.Marshal(report); err == nil {
		r.ReportJson = string(text)
	}
}

// endedAlone notes that the nodes have begun to end a run while no control was there, and when: at the latest when that
// was found.
func endedAlone(r *ecsv1.Run, told *nodev1.Cause, found time.Time) {
	at := timestamppb.New(within(r.GetStartDone(), time.UnixMicro(told.GetAtUs()), found))
	r.Cause = &ecsv1.Cause{
		Component: nodes.Name,
		What:      "the control was gone for longer than the nodes build on without it",
		Code:      nodes.EndControlLost,
		Evidence:  told.GetWhat(),
		At:        at,
	}
	if r.StopBegun == nil { // else it was being stopped already
		r.StopBegun = at
	}
}

// overAt is when a run was over that its nodes ended while no control was there: as they tell, or when that was found
// where they cannot tell or tell a later time, by a clock that is ahead.
func overAt(r *ecsv1.Run, told, found time.Time) (at time.Time, isFound bool) {
	if told.IsZero() || told.After(found) {
		told, isFound = found, true
	}
	return within(r.GetStopBegun(), told, found), isFound
}

// within keeps what a node tells by its clock from coming before what it came after, and after it was found.
func within(first *timestamppb.Timestamp, told, found time.Time) time.Time {
	if told.After(found) {
		told = found
	}
	if t := first.AsTime(); told.Before(t) {
		return t
	}
	return told
}

// untold notes that a run was over when the control came back, and who cannot tell any more how it ended.
func untold(r *ecsv1.Run, missing []string) {
	r.EndFound = true
	if r.GetCause() != nil {
		return // what was first is what counts
	}
	r.Cause = lostSight("the run was over when the control came back, and how it ended cannot be told any more by " +
		strings.Join(missing, ", "))
}

// abandoned closes the record of a run of which nothing more can be known. One that had begun, and that no fault had
// struck, may have ended in good order: it is INCOMPLETE, since nobody can tell, and not ABORTED.
func abandoned(r *ecsv1.Run, why string) {
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
		r.Cause = lostSight(why)
	}
	r.VerdictWhy = r.GetCause().GetComponent() + ": " + r.GetCause().GetWhat()
	r.Unread = writers(r)
}

// lostSight is the cause of an end that no control has seen.
func lostSight(what string) *ecsv1.Cause {
	return &ecsv1.Cause{
		Component: nodes.Name,
		What:      what,
		Evidence:  "found when the control came back",
		Code:      nodes.EndControlLost,
		At:        timestamppb.Now(),
	}
}
