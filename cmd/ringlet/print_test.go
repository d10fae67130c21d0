package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
		got, err := (&controlCmd{State: c.given}).state()
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// TestLineIsRewritten: a line of a terminal is drawn anew only where it changes, and gone in the end.
func TestLineIsRewritten(t *testing.T) {
	var out bytes.Buffer
	l := dataLine{ttyLine: ttyLine{w: &out, on: true}}
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
