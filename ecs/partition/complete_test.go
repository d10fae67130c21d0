package partition_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/recording"
	"ringlet/testkit/patiently"
)

// unplugged is a farm whose nodes were lost in a run, all at once and with the disk that they wrote to.
func unplugged(t *testing.T) (h *farm, plug func()) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	away := filepath.Join(filepath.Dir(out), "away")
	h = newFarm(t, 3, func(c *config.Config) { c.Output = out + "/" })
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	move(out, away)
	for _, name := range []string{"n0", "n1", "n2"} {
		h.endNode(name)
	}
	return h, func() {
		move(away, out)
		for _, name := range []string{"n0", "n1", "n2"} {
			patiently.Hold(h.gone[name])
			h.startNode(name)
		}
	}
}

// complete waits until the record of a run misses nothing, and holds it and its manifest against the files.
func (h *farm) complete(verdict ecsv1.Verdict) {
	h.t.Helper()
	h.await("the record is completed", func() bool {
		r, err := h.store.Get(1)
		return err == nil && r.GetCompleted() != nil && len(r.GetUnread()) == 0
	})
	r := h.closedRun(1)
	if r.GetVerdict() != verdict {
		h.t.Errorf("run 1 is %v: %v", r.GetVerdict(), r.GetCause())
	}
	report := &nodes.Report{}
	if err := json.Unmarshal([]byte(r.GetReportJson()), report); err != nil {
		h.t.Fatal(err)
	}
	there, err := recording.Read(h.t.Context(), report.RecordedOutput.Directory)
	if err != nil {
		h.t.Fatal(err)
	}
	for p := range there.AllProblems {
		h.t.Error(p)
	}
	found := there.MEPSet.Events()
	if found == 0 || report.RecordedOutput.Events != found || report.OutputEvents != found ||
		report.EventsBuilt != r.GetEventsBuilt() {
		h.t.Errorf("%d events are in the files; the report has %d, %d, and %d built; the record %d built",
			found, report.RecordedOutput.Events, report.OutputEvents, report.EventsBuilt, r.GetEventsBuilt())
	}
	if report.EventsBuilt > found {
		h.t.Errorf("%d events are reported as built, and %d are in the files", report.EventsBuilt, found)
	}
	for _, a := range r.GetAccounts() {
		if !a.GetOk() {
			h.t.Errorf("%s: %d and %d", a.GetName(), a.GetLeft(), a.GetRight())
		}
	}
	v := there.Manifest.Verdict
	if v == nil || v.EventsInDirectory != found || v.EventsOutput != found || v.EventsBuilt != report.EventsBuilt ||
		v.Verdict != report.VerdictWord() || !slices.Equal(v.MissingEvents, report.RecordedOutput.MissingEvents) {
		h.t.Errorf("the manifest has the verdict %+v, and the report %+v", v, report.RecordedOutput)
	}
	h.await("it is told", func() bool { return h.journalHas("run", "the record of run 1 is completed") })
}

// What nodes had built that were killed, all of them, is in the record of the run when they are back, and in its
// manifest: also where the control was away, and another one finds who was not read.
func TestNodesComeBackWithTheirFiles(t *testing.T) {
	for name, another := range map[string]bool{"to their control": false, "to another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, plug := unplugged(t)
			r := h.awaitClosed(1)
			if r.GetVerdict() != ecsv1.Verdict_VERDICT_ABORTED || len(r.GetUnread()) != 3 || r.GetCompleted() != nil {
				t.Fatalf("nobody can read the output: %v, unread %v, completed %v",
					r.GetVerdict(), r.GetUnread(), r.GetCompleted())
			}
			if another {
				h.stopControl()
				h.restartControl(0)
			}
			plug()
			h.complete(ecsv1.Verdict_VERDICT_ABORTED)
		})
	}
}
