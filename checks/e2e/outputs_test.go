package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// outputs is the directory to which nodes write in these tests, on the volume that each platform gives them:
// docs/deploying.md.
const outputs = "/var/lib/ringlet/out"

// recording are settings with which a run is recorded there.
var recording = []string{"output=" + outputs + "/"}

// place is where a part of a run is recorded: a host, a pod, a container. Nodes may share it.
type place struct {
	name    string
	ringlet func(words ...string) (string, error) // runs ringlet there, as the user that has recorded
}

// problems of the files that ringlet verify looks at.
type problems struct {
	Listed []struct{ Kind, File, Text string }
	More   uint64
}

// verified is what ringlet verify finds of a run.
type verified struct {
	Run       int
	Concluded bool
	Verdict   string
	Builders  []struct {
		State    string
		Segments []struct {
			Name     string
			Problems problems
		}
	}
	Problems problems
	Events   uint64
	Lost     struct{ Events uint64 }
	Strange  uint64 `json:"events_never_triggered"`
	Closed   bool
}

// sound says what is wrong with the files, whoever has told what about them.
func (v *verified) sound() error {
	all := v.Problems.Listed
	more := v.Problems.More
	segments := 0
	for _, b := range v.Builders {
		for _, s := range b.Segments {
			all = append(all, s.Problems.Listed...)
			more += s.Problems.More
			segments++
		}
	}
	if len(all) > 0 || more > 0 || v.Lost.Events > 0 || v.Strange > 0 || segments == 0 || v.Events == 0 {
		return fmt.Errorf("%d events in %d segments, %d lost, %d that never were; problems %+v and %d more",
			v.Events, segments, v.Lost.Events, v.Strange, all, more)
	}
	return nil
}

// runDir is the directory of a run.
func runDir(number int) string { return fmt.Sprintf("%s/run-%06d", outputs, number) }

// verify reads a run back at a place. closed says that the program has nothing to find fault with, and its exit code
// is 0.
func (p place) verify(t *testing.T, number int) (v verified, closed bool) {
	t.Helper()
	out, err := p.ringlet("verify", "--json", runDir(number))
	var all struct{ Runs []verified }
	if bad := json.Unmarshal([]byte(out), &all); bad != nil || len(all.Runs) != 1 || all.Runs[0].Run != number {
		t.Fatalf("%s: run %d cannot be read back: %v, %v: %s", p.name, number, err, bad, out)
	}
	if v = all.Runs[0]; v.Closed != (err == nil) {
		t.Errorf("%s: run %d: closed %v, and the program ends with %v", p.name, number, v.Closed, err)
	}
	return v, err == nil
}

// recorded holds that a run which came out well is in the files, each event once: every place closes its accounts, and
// together they have what was built.
func (r record) recorded(t *testing.T, places ...place) {
	t.Helper()
	var found uint64
	for _, p := range places {
		v, closed := p.verify(t, r.Number)
		if err := v.sound(); err != nil || !closed || v.Verdict != strings.TrimPrefix(r.Verdict, "VERDICT_") {
			t.Errorf("%s: run %d, %s: closed %v, the manifest says %s: %v", p.name, r.Number, r.Verdict, closed, v.Verdict, err)
		}
		found += v.Events
	}
	if strconv.FormatUint(found, 10) != r.EventsBuilt {
		t.Errorf("run %d: %s events were built, and %d are in the files", r.Number, r.EventsBuilt, found)
	}
}

// allRecorded holds that every triggered event is in the files, each counted once, as the control has read them.
func (r record) allRecorded(t *testing.T) {
	t.Helper()
	var report struct {
		Triggered uint64 `json:"events_triggered"`
		Recorded  struct{ Events uint64 }
	}
	if err := json.Unmarshal([]byte(r.ReportJSON), &report); err != nil {
		t.Fatalf("run %d: its report cannot be read: %v", r.Number, err)
	}
	if report.Recorded.Events != report.Triggered || report.Triggered == 0 {
		t.Errorf("run %d: %d events were triggered, and %d are in the files", r.Number, report.Triggered,
			report.Recorded.Events)
	}
}

// salvaged holds that nothing is lost of a run in which somebody was killed: when what was left open is closed, all
// files are sound, and together they have at least what was built. They may have more: what was written, and not told
// of in time. A directory whose nodes were all killed has no verdict, and does not close for want of it alone.
func (r record) salvaged(t *testing.T, places ...place) {
	t.Helper()
	built, err := strconv.ParseUint(r.EventsBuilt, 10, 64)
	if err != nil || built == 0 {
		t.Errorf("run %d: %q events were built", r.Number, r.EventsBuilt)
	}
	var found uint64
	for _, p := range places {
		said, err := p.ringlet("recover", outputs)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		t.Logf("%s: %s", p.name, strings.TrimSpace(said))
		v, closed := p.verify(t, r.Number)
		if err := v.sound(); err != nil || v.Concluded != closed {
			t.Errorf("%s: run %d: closed %v, with a verdict %v: %v", p.name, r.Number, closed, v.Concluded, err)
		}
		found += v.Events
	}
	if found < built {
		t.Errorf("run %d: %d events were built, and %d are in the files", r.Number, built, found)
	}
}
