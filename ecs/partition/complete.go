package partition

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	"ringlet/node/cluster"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// When a run is closed, some of its nodes may be gone, and their files cannot be read: the record lists these nodes
// (Unread). The control completes the record when a node can read the files again: the same node, or another one on its
// host. A control that is started later does so, too.

// readAttempt is the last attempt to read the output of a run: when, and with which members. The zero value: never.
type readAttempt struct {
	triedAt time.Time
	members string
}

// Members come back one by one, and a node that has joined may not answer yet: an attempt that failed is repeated when
// the members have changed, or after completeRetryInterval.
const (
	completeInterval      = time.Second
	completeRetryInterval = 30 * time.Second
)

// isDue says whether to try now: never without members.
func (r readAttempt) isDue(now time.Time, members string) bool {
	return members != "" && (members != r.members || now.Sub(r.triedAt) >= completeRetryInterval)
}

// maxUnread bounds how many records the control completes by itself: those of the newest runs.
const maxUnread = 64

// completion completes the records of runs whose output was not read as a whole.
type completion struct {
	*control
	records *records

	mu     sync.Mutex             // guards what follows
	unread map[uint32]readAttempt // runs on record whose output was not read as a whole, by number
}

// noteUnread notes a run if its output was not read as a whole.
func (c *completion) noteUnread(rec *ecsv1.Run) {
	if len(rec.GetUnread()) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread[rec.GetNumber()] = readAttempt{}
	if len(c.unread) > maxUnread {
		delete(c.unread, slices.Min(slices.Collect(maps.Keys(c.unread))))
	}
}

// completeRecords tries to complete the records that are due, one at a time, the newest first.
func (c *completion) completeRecords() {
	members := c.cfg.Members.ByName()
	units := cluster.UnitNames(members)
	maps.DeleteFunc(members, func(name string, _ cluster.Member) bool { return !slices.Contains(units, name) })
	for _, attempt := range c.dueAttempts(time.Now(), membersKey(members)) {
		if err := c.completeRecord(c.ctx, attempt, members); err != nil && c.ctx.Err() == nil {
			c.log.Warn("the record of a run cannot be completed yet", "run", attempt.run, "err", err)
		}
	}
}

// membersKey identifies the members and their addresses.
func membersKey(members map[string]cluster.Member) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all.WriteString(name + " " + members[name].Meta.GRPCAddr + "\n")
	}
	return all.String()
}

// completionAttempt is a run whose record is due.
type completionAttempt struct {
	run        uint32
	newMembers bool // the members have changed since the last attempt
}

// dueAttempts are the runs whose records are due, the newest first; it notes the attempt.
func (c *completion) dueAttempts(now time.Time, members string) (runs []completionAttempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for run, last := range c.unread {
		if last.isDue(now, members) {
			c.unread[run] = readAttempt{now, members}
			runs = append(runs, completionAttempt{run, members != last.members})
		}
	}
	slices.SortFunc(runs, func(a, b completionAttempt) int { return cmp.Compare(b.run, a.run) })
	return runs
}

// completeRecord tries to read the missing output of a run, and completes the run's record and manifests with it.
func (c *completion) completeRecord(ctx context.Context, attempt completionAttempt,
	members map[string]cluster.Member) error {
	number := attempt.run
	rec, err := c.cfg.Store.Get(number)
	var none *record.NoRunError
	switch {
	case errors.As(err, &none):
		c.forgetUnread(number)
		return nil
	case err != nil:
		return err
	case !record.IsClosed(rec):
		return nil // the end of the run is still in pendingWrites
	case len(rec.GetUnread()) == 0:
		c.forgetUnread(number)
		return nil
	}
	cfg, err := config.Restore("the configuration of the run", []byte(rec.GetConfiguration()))
	if err != nil {
		return err
	}
	soFar, err := recordedReport(rec)
	if err != nil {
		return err
	}
	late := nodes.LateCompletion{
		Identity:       c.cfg.Identity,
		Term:           c.cfg.Term,
		Log:            c.log,
		Configuration:  cfg,
		Key:            rec.GetRunKey(),
		Names:          rec.GetNodes(),
		Unread:         rec.GetUnread(),
		Report:         soFar,
		ReadRegardless: attempt.newMembers,
	}
	report, err := late.Complete(ctx, members)
	if err != nil || report == nil {
		return err
	}
	after := completedRecord(rec, report, time.Now())
	if err := c.cfg.Store.CompleteRun(after); err != nil {
		return err
	}
	c.publishCompleted(rec, after)
	return nil
}

// forgetUnread notes that all output of a run was read.
func (c *completion) forgetUnread(number uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unread, number)
}

// publishCompleted writes to the journal that a record was completed, and corrects the counts of verdicts.
func (c *completion) publishCompleted(before, after *ecsv1.Run) {
	c.records.countVerdict(before.GetVerdict(), -1)
	c.records.countVerdict(after.GetVerdict(), 1)
	if len(after.GetUnread()) == 0 {
		c.forgetUnread(after.GetNumber())
	}
	text := fmt.Sprintf("the record of run %d is completed with what was read since: %s, %d events built",
		after.GetNumber(), verdictWord(after.GetVerdict()), after.GetEventsBuilt())
	if unread := after.GetUnread(); len(unread) > 0 {
		text += "; not read yet: " + strings.Join(unread, ", ")
	}
	c.cfg.Journal.Add(&ecsv1.Event{ // a closed record takes no more events
		At:        timestamppb.Now(),
		Kind:      "run",
		Component: partitionComponent,
		Severity:  ecsv1.Severity_SEVERITY_INFO,
		Run:       after.GetNumber(),
		Text:      text,
	})
}

// recordedReport is the report of a run on record. If control and nodes were gone before they made one, it is a report
// that says only how the run ended.
func recordedReport(rec *ecsv1.Run) (*nodes.Report, error) {
	report := &nodes.Report{}
	if text := rec.GetReportJson(); text != "" {
		if err := json.Unmarshal([]byte(text), report); err != nil {
			return nil, fmt.Errorf("the report of run %d: %w", rec.GetNumber(), err)
		}
		return report, nil
	}
	report.Run, report.EndCause = rec.GetNumber(), rec.GetEnd()
	report.EventsFromFiles, report.EndUnknown = true, true
	if rec.GetVerdict() == ecsv1.Verdict_VERDICT_ABORTED {
		c := fault.FromCause(rec.GetCause())
		report.Cause, report.GivenUp = &c, true
	}
	return report, nil
}

// completedRecord is a copy of the record with the completed report. A run in which a member took no part is never
// GOOD.
func completedRecord(before *ecsv1.Run, report *nodes.Report, now time.Time) *ecsv1.Run {
	after := proto.CloneOf(before)
	fillResults(after, report)
	after.Verdict, after.Completed = recordVerdict(report), timestamppb.New(now)
	if after.GetVerdict() == ecsv1.Verdict_VERDICT_GOOD && after.GetCause().GetCode() == causeCodeAbsent {
		degradeVerdict(after)
	}
	return after
}

// fileWriters are the nodes of a run that may have written to files.
func fileWriters(r *ecsv1.Run) []string {
	cfg, err := config.Restore("the configuration of the run", []byte(r.GetConfiguration()))
	if err != nil || !cfg.WritesFiles() || len(r.GetRunKey()) == 0 {
		return nil
	}
	return nodes.BuilderNames(&cfg, r.GetNodes())
}
