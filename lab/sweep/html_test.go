package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ringlet/lab/trial"
	"ringlet/testkit/transcript"
)

// shown is where to leave the page of the sweep below, for people to look at: go test ./lab/sweep -run Page -page
// /tmp/page.html
var shown = flag.String("page", "", "write the page of a sweep of invented figures to this file")

const everything = `name: a page of all # <b>
repeat: 3
port-rate: 200Mbit
reference-every: 8
fixed: {duration: 1s, packing: 50}
series:
  - name: barriers
    vary: {nodes: [2, 4, 8, 16, 32], phase-end: [central, tournament, none]}
  - name: suspended
    vary: {debug.drop: [0, 0.001, 0.01, 0.1], slots: [2, 4]}
  - name: side by side
    fixed: {nodes: 8}
    vary: {phase-end: [none, central, tournament], run-number: [1, 13]}
`

// makePage runs the sweep with the fake program and returns its results and its page.
func makePage(t *testing.T) (*results, string) {
	t.Helper()
	dir := t.TempDir()
	runFake(t, parse(t, everything), Config{Dir: dir, MeasureReferences: func(context.Context, *Cell) ([]ReferenceGoodput,
		error) {
		return []ReferenceGoodput{{"TCP, loopback", 41.5}}, nil
	}})
	text, err := os.ReadFile(filepath.Join(dir, fileHTML))
	if err != nil {
		t.Fatal(err)
	}
	if *shown != "" {
		if err := os.WriteFile(*shown, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return load(t, dir), string(text)
}

func TestThePageIsWhole(t *testing.T) {
	_, text := makePage(t)
	// All that looks like an address is uPlot's own name in its first comment.
	for _, at := range regexp.MustCompile(`https?://[^\s"'<>)]*`).FindAllString(text, -1) {
		if at != "https://github.com/leeoniya/uPlot" {
			t.Errorf("an external address: %s", at)
		}
	}
	for _, word := range []string{"src=", "@import", "url(", "fetch(", "XMLHttpRequest", "<link", "import("} {
		if strings.Contains(text, word) {
			t.Errorf("%s: the page may load something", word)
		}
	}
	for _, want := range []string{
		"default-src 'none'", "<title>a page of all", "# &lt;b&gt;", "The MIT License", "uPlot=function", "--ground:",
		"The sweep file", "<h2>Failed</h2>",
		"TCP, loopback", "Over the size of the system", "Over what is lost", "Side by side",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// What varies decides which figures there are, over what, and what their curves are called.
func TestFiguresFollowFromWhatVaries(t *testing.T) {
	r, _ := makePage(t)
	var out bytes.Buffer
	for _, s := range pageOf(newPageData(r)).Sections {
		if s.Figures == nil {
			continue
		}
		out.WriteString("\n# " + s.Title + "\n")
		for _, f := range s.Figures {
			out.WriteString("\n" + f.Title + ": " + f.Y.Label)
			if f.Y.Log {
				out.WriteString(", logarithmic")
			}
			out.WriteString("\n  over " + f.X.Label + ":")
			for _, tick := range f.X.Ticks {
				out.WriteString(" [" + tick.Label + "]@" + trial.Short(tick.At))
			}
			out.WriteString("\n")
			for _, c := range f.Curves {
				out.WriteString("  " + c.Name + ":")
				for _, p := range c.Points {
					out.WriteString(" " + trial.Short(p.Median))
				}
				out.WriteString("\n")
			}
		}
	}
	transcript.Expect(t, "testdata/figures.txt", out.String())
}

func TestTimelinesBeginWhereAllHavePhases(t *testing.T) {
	got := timelineOf("x", []phase{
		{RU: 1, BU: 1, MEP: 5, Begin: 100, Sent: 150, Released: 170},
		{RU: 0, BU: 0, MEP: 4, Begin: 20, Sent: 80, Released: 90},
		{RU: 0, BU: 1, MEP: 6, Begin: 90, Sent: 140, Released: 175},
		{RU: 0, BU: 2, MEP: 7, Begin: 175, Sent: 180, Released: 0},
	})
	want := `{"title":"x","rus":2,"phases":[[0,0,40,75,1,6],[1,0,50,70,1,5],[0,75,80,80,2,7]],"span":80}`
	if text, _ := json.Marshal(got); string(text) != want {
		t.Errorf("%s", text)
	}
}

// What had no outcome was not sent, and a phase may have nothing to send.
func TestTimelinesOfWhatWasNotSent(t *testing.T) {
	got := timelineOf("x", []phase{
		{RU: 0, BU: 3, MEP: 4, Begin: 20, Sent: -1, Released: 90},
		{RU: 0, BU: -1, Begin: 90, Sent: 90, Released: 95},
	})
	want := `{"title":"x","rus":1,"phases":[[0,0,0,70,3,4],[0,70,70,75,-1,0]],"span":75}`
	if text, _ := json.Marshal(got); string(text) != want {
		t.Errorf("%s", text)
	}
	// the script takes no null
	if text, _ := json.Marshal(timelineOf("x", []phase{{Begin: 5, Sent: -1, Released: -1}}).Phases); string(text) != "[]" {
		t.Errorf("%s", text)
	}
}

// The share of lost events is that of all repetitions, those without a loss too.
func TestLossIsOfAllRepetitions(t *testing.T) {
	g := &group{}
	for _, lost := range []uint64{0, 20, 0, 0, 0} {
		m, ok := parseRun(&runLine{Report: fmt.Appendf(nil, `{"events_triggered":1000,"events_discarded":%d}`, lost)})
		if !ok {
			t.Fatal("no result")
		}
		g.runs = append(g.runs, m)
	}
	for _, m := range metrics {
		if s, ok := g.spreadOf(m); m.title == "Discarded" && (!ok || s != trial.Spread{Max: 2, N: 5}) {
			t.Errorf("%+v, %v", s, ok)
		}
	}
}

// Lines of sweeps until 2026-11-28 have events_incomplete in their reports. They are read; the field says nothing.
func TestResultsWithIncompleteEventsAreRead(t *testing.T) {
	text, err := os.ReadFile("testdata/results-65193f23.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r, completeLen, err := parseResults("results", text)
	if err != nil || completeLen != len(text) {
		t.Fatalf("%d of %d bytes are lines: %v", completeLen, len(text), err)
	}
	good, failed := r.splitRuns()
	if len(good) != 1 || len(failed) > 0 || good[0].figures["lost_share"] != 0.01 ||
		good[0].figures["events_built"] != 1970 || !good[0].report.AccountsOK {
		t.Errorf("%+v, %+v", good, failed)
	}
	var table bytes.Buffer
	if err := writeCSV(&table, r); err != nil || strings.Contains(table.String(), "events_incomplete") {
		t.Errorf("%s: %v", &table, err)
	}
}

func TestCurvesSayWhatIsOn(t *testing.T) {
	g := &group{varied: []Value{{"bypass", "on"}, {"verify", "off"}, {"loop", "true"}, {"barrier", "none"},
		{"transport", "quic"}, {"debug.drop", "0.1"}, {"nodes", "4"}}}
	if got := label(g, "nodes", false); got != "bypass on, verify off, loop true, barrier none, quic, drop 0.1" {
		t.Error(got)
	}
}

// A page of nothing is a page.
func TestEmptyResultsHaveAPage(t *testing.T) {
	var b bytes.Buffer
	if err := writeHTML(&b, &results{}); err != nil || !strings.Contains(b.String(), "None were measured") {
		t.Error(err)
	}
	// the script takes no null
	if text, _ := json.Marshal(pageOf(newPageData(&results{})).Sections); string(text) != "[{},{},{}]" {
		t.Errorf("%s", text)
	}
	if f := sectionOf([]*group{{runs: []*measuredRun{{runLine: &runLine{}}}}}, "").figures; len(f) > 0 {
		t.Errorf("%v", f)
	}
}
