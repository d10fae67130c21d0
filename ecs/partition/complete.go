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

// The record of a run says which nodes had gone, with their files, when it was closed. It is completed when they are
// back: by them, by another node on their host, or by a run control that comes later.

// readAttempt is when the output of a run was last tried, and who was there then. The zero value: never.
type readAttempt struct {
	triedAt time.Time
	members string
}

// Members come back one by one, and a node that is there may not answer yet: what has failed is tried again when
// somebody else is there, or after a while.
const (
	completeInterval      = time.Second
	completeRetryInterval = 30 * time.Second
)

// isDue says whether to try now. Nobody does while no node is there.
func (r readAttempt) isDue(now time.Time, members string) bool {
	return members != "" && (members != r.members || now.Sub(r.triedAt) >= completeRetryInterval)
}

// maxUnread are the newest runs whose records are completed by themselves.
const maxUnread = 64

// completion completes the records of runs of whose output not all was read.
type completion struct {
	*control
	records *records

	mu     sync.Mutex             // guards what follows
	unread map[uint32]readAttempt // runs on record of whose output not all was read
}

// noteUnread notes a run of whose output not all was read.
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

// completeRecords completes records, one at a time, the newest first.
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

// membersKey is who is there, and where.
func membersKey(members map[string]cluster.Member) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all.WriteString(name + " " + members[name].Meta.GRPCAddr + "\n")
	}
	return all.String()
}

// completionAttempt is a run to try now.
type completionAttempt struct {
	run        uint32
	newMembers bool // are there than when it was tried last
}

// dueAttempts are the runs to try now, the newest first.
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

// completeRecord tries to read what was not read of a run, and completes its record and its manifests with it.
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
		return nil // the store has not taken its end yet
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

// forgetUnread notes that nothing of a run is unread any more.
func (c *completion) forgetUnread(number uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unread, number)
}

// publishCompleted tells that a record was completed.
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
	c.cfg.Journal.Add(&ecsv1.Event{ // the record takes no more events
		At:        timestamppb.Now(),
		Kind:      "run",
		Component: partitionComponent,
		Severity:  ecsv1.Severity_SEVERITY_INFO,
		Run:       after.GetNumber(),
		Text:      text,
	})
}

// recordedReport is the report of a run on record. Where nobody could make one, as its control and its nodes were gone,
// it is one that knows nothing but that.
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

// completedRecord is the record with a report that was completed. A run in which a member took no part is never GOOD.
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
