package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"ringlet/ecs/partition/nodes"
)

// TestStateHasAPlace: what outlives a control lies where it is told, or where the user's other programs keep such.
func TestStateHasAPlace(t *testing.T) {
	for name, c := range map[string]struct{ given, state, home, want string }{
		"given":   {"/given", "/state", "/home/alice", "/given"},
		"state":   {"", "/state", "/home/alice", "/state/ringlet"},
		"home":    {"", "", "/home/alice", "/home/alice/.local/state/ringlet"},
		"nowhere": {"", "", "", ""},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		got, err := (&controlCmd{State: c.given}).stateDir()
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// TestLineIsRewritten: a line of a terminal is drawn anew only where it changes, and gone in the end.
func TestLineIsRewritten(t *testing.T) {
	var out bytes.Buffer
	l := dataLine{ttyLine: ttyLine{w: &out, enabled: true}}
	l.show("read", 1, 200)
	l.show("read", 2, 200)
	l.show("read", 3, 200)
	l.end()
	l.end()
	const erase = "\r\x1b[K"
	if want := erase + "  0 %  read" + erase + "  1 %  read" + erase; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// TestSilentSourcesAreNamed: who looks at a run sees for whom it waits, and a log hears it once.
func TestSilentSourcesAreNamed(t *testing.T) {
	waits := nodes.Progress{
		Elapsed:       silenceBeforeWarning + 1,
		State:         "running",
		SilentSources: []string{"tcp:h:1", "shm:a", "shm:b", "shm:c"},
	}
	var out bytes.Buffer
	log := liveLine{ttyLine: ttyLine{w: &out}, warnSilent: true}
	log.show(nodes.Progress{Elapsed: silenceBeforeWarning, SilentSources: waits.SilentSources})
	log.show(waits)
	log.show(waits)
	const said = "the first fragment of tcp:h:1, shm:a, shm:b and 1 more"
	if want := "ringlet: the run waits for " + said + "\n"; out.String() != want {
		t.Errorf("a log says %q, want %q", &out, want)
	}
	out.Reset()
	line := liveLine{ttyLine: ttyLine{w: &out, enabled: true}}
	line.show(waits)
	waits.Elapsed, waits.Events = 2*waits.Elapsed, 1
	line.show(waits)
	if lines := strings.Split(out.String(), "\r\x1b[K"); len(lines) != 3 ||
		!strings.HasSuffix(lines[1], "waits for "+said) || strings.Contains(lines[2], "waits") {
		t.Errorf("a terminal shows %q", lines)
	}
}

// TestTheReportCounts: one is no range, and a source that gave nothing has no last event.
func TestTheReportCounts(t *testing.T) {
	for want, got := range map[string]string{
		"1 file":       withUnit(1, "file", "files"),
		"0 files":      withUnit(0, "file", "files"),
		"nothing came": lastEvent(nodes.SourceReport{}),
		"last event 0": lastEvent(nodes.SourceReport{Fragments: 1}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTheReportNamesFrontEnds of the sources of which it knows them.
func TestTheReportNamesFrontEnds(t *testing.T) {
	var rows []string
	row := func(label, format string, args ...any) { rows = append(rows, label+"|"+fmt.Sprintf(format, args...)) }
	sourceRows(row, &nodes.Report{Sources: []nodes.SourceReport{
		{Name: "udp:h:8"}, {Source: 1, Name: "tcp:h:7", Frontend: `"board" at 10.0.0.7:5000`},
	}})
	if len(rows) != 3 || !strings.HasPrefix(rows[1], "source 1|tcp:h:7: ") ||
		rows[2] != `|the front-end: "board" at 10.0.0.7:5000` {
		t.Errorf("the rows are %q", rows)
	}
}

// TestLogsAreInTheFormatAsked, and tell everything to those who want it.
func TestLogsAreInTheFormatAsked(t *testing.T) {
	for format, want := range map[string]string{"text": "msg=hello", "json": `"msg":"hello"`} {
		var out bytes.Buffer
		formatted(&out, slog.LevelInfo, format).Info("hello")
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", format, &out)
		}
	}
	for _, verbose := range []bool{false, true} {
		var out bytes.Buffer
		logger(&out, verbose).Info("hello")
		if (out.Len() > 0) != verbose {
			t.Errorf("verbose %v: %q", verbose, &out)
		}
	}
}
