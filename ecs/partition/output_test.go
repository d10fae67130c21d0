package partition

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/ecs/journal"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// What nodes said of the output when a start was asked for holds for that start alone, and for those nodes. Where the
// output holds runs and the records have none, that is said, once: the next run has its record.
func TestAStartAsksAboutTheOutputOnce(t *testing.T) {
	cfg := config.Completed{Config: config.Default()}
	cfg.Output = t.TempDir() + "/"
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	nodeSet, other := nodes.NewNodeSet(nodes.Options{}, cfg), nodes.NewNodeSet(nodes.Options{}, cfg)
	for name, c := range map[string]struct {
		asked *nodes.NodeSet
		by    string
		next  uint32 // a NodeSet without nodes says that there is no run
	}{
		"asked before the start":          {nodeSet, "alice", 42},
		"the start has found other nodes": {other, "alice", 1},
		"nobody asked":                    {nil, "alice", 1},
		"nobody asked for this start":     {nodeSet, recoveryUser, 1},
	} {
		store, err := record.Open(filepath.Join(t.TempDir(), "runs.db"))
		if err != nil {
			t.Fatal(err)
		}
		events := journal.New(8, 0)
		p := newPartition(Config{Store: store, Journal: events})
		defer p.stopGoroutines()
		p.outputCheck, p.pendingCommand.user = outputCheck{c.asked, 41}, c.by
		if err := p.records.reserveNumber(nodeSet); err != nil {
			t.Error(err)
		}
		if r, err := store.NextRun(nil); err != nil || r.GetNumber() != c.next {
			t.Errorf("%s: the next run is %d, not %d: %v", name, r.GetNumber(), c.next, err)
		}
		if p.outputCheck.nodeSet != nil {
			t.Errorf("%s: the next start does not ask", name)
		}
		if got, want := warnsOfUnrecordedRuns(events), c.next > 1; got != want {
			t.Errorf("%s: the output has runs and the records have none: said %v, not %v", name, got, want)
		}
		last := events.LastNumber()
		p.outputCheck = outputCheck{nodeSet, 41}
		if err := p.records.reserveNumber(nodeSet); err != nil || events.LastNumber() != last {
			t.Errorf("%s: records that have a run are told as empty: %v, %v", name, events.EventsSince(last), err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// warnsOfUnrecordedRuns says whether the journal warns of runs in the output of which there is no record.
func warnsOfUnrecordedRuns(events *journal.Journal) bool {
	return slices.ContainsFunc(events.EventsSince(0), func(e *ecsv1.Event) bool {
		return e.GetKind() == "record" && e.GetSeverity() == severityWarning &&
			strings.Contains(e.GetText(), "no record of any run") &&
			strings.Contains(e.GetText(), "holds runs up to 41") && strings.Contains(e.GetText(), "--state")
	})
}

// Records are tried when somebody new is there, and else after a while; never while nobody is.
func TestWhenRecordsAreCompleted(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		last  readAttempt
		there string
		want  bool
	}{
		"never tried":         {readAttempt{}, "n0 a", true},
		"nobody is there":     {readAttempt{}, "", false},
		"just tried":          {readAttempt{now.Add(-time.Second), "n0 a"}, "n0 a", false},
		"somebody is back":    {readAttempt{now.Add(-time.Second), "n0 a"}, "n0 a\nn1 b", true},
		"started anew":        {readAttempt{now.Add(-time.Second), "n0 a"}, "n0 b", true},
		"tried a while since": {readAttempt{now.Add(-completeRetryInterval), "n0 a"}, "n0 a", true},
	} {
		if got := c.last.isDue(now, c.there); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A record that nobody could fill names who may have written, and is completed as what it is: nobody knows how such a
// run ended, whatever the files have.
func TestARecordWithoutAReport(t *testing.T) {
	cfg := config.Completed{Config: config.Default()}
	cfg.Nodes, cfg.Output = 2, t.TempDir()+"/"
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	rec := &ecsv1.Run{
		Number:        7,
		Nodes:         []string{"n0", "n1"},
		Configuration: string(cfg.Effective()),
		RunKey:        nodes.NewKey(),
		End:           ecsrun.EndFault,
		Cause:         &ecsv1.Cause{Component: "n1", What: "it was killed"},
	}
	closeAbandoned(rec, "nobody can tell")
	if len(rec.GetUnread()) != 2 || rec.GetVerdict() != ecsv1.Verdict_VERDICT_ABORTED {
		t.Fatalf("%v", rec)
	}
	report, err := recordedReport(rec)
	if err != nil || report.VerdictWord() != "ABORTED" || report.Cause.Component != "n1" {
		t.Errorf("%+v, %v", report, err)
	}
	rec.Verdict, rec.Cause = ecsv1.Verdict_VERDICT_INCOMPLETE, nil
	report, err = recordedReport(rec)
	if err != nil || report.VerdictWord() != "INCOMPLETE" {
		t.Errorf("%+v, %v", report, err)
	}
	report.AccountingOK = true
	report.RecordedOutput = &nodes.Output{Events: 100}
	rec.Cause = &ecsv1.Cause{Code: causeCodeAbsent}
	after := completedRecord(rec, report, time.Now())
	if after.GetVerdict() != ecsv1.Verdict_VERDICT_DEGRADED || len(after.GetUnread()) != 0 ||
		after.GetCompleted() == nil {
		t.Errorf("a run in which a member took no part: %v", after)
	}
}
