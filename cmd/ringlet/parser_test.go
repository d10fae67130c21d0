package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The help of a run fits two screens, and all that it leaves out is a flag away.
func TestHelpFitsTwoScreens(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for _, command := range []string{"run", "control"} {
		short, full := helpOf(t, command, "--help"), helpOf(t, command, "--help-all")
		if n := strings.Count(short, "\n"); command == "run" && n > 100 {
			t.Errorf("the help of %s has %d lines", command, n)
		}
		for _, text := range []string{"--debug-drop", "one sender to a builder unit at a time"} {
			if strings.Contains(short, text) || !strings.Contains(strings.Join(strings.Fields(full), " "), text) {
				t.Errorf("%s: %q is in the first help, or not in the whole", command, text)
			}
		}
		for _, text := range []string{"--discipline", "tagring-wait", "quic-go", "--help-all"} {
			if !strings.Contains(short, text) {
				t.Errorf("%s: %q is not in the first help:\n%s", command, text, short)
			}
		}
	}
}

func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, streams{&out, &errs}); code != exitGood || errs.Len() > 0 {
		t.Fatalf("%v ends with %d: %s", args, code, &errs)
	}
	return out.String()
}

func TestHelpOfCtlNeedsNoCertificate(t *testing.T) {
	t.Setenv("RINGLET_CERTS", "")
	var out, errs bytes.Buffer
	if code := run([]string{"ctl", "help"}, streams{&out, &errs}); code != exitGood ||
		!strings.Contains(out.String(), "take-control") {
		t.Errorf("ends with %d: %s%s", code, &out, &errs)
	}
}

func TestUnknownFlag(t *testing.T) {
	for _, flag := range []string{"--barrier", "--no-such-thing"} {
		var out, errs bytes.Buffer
		if code := run([]string{"run", flag + "=none"}, streams{&out, &errs}); code != exitUsage ||
			!strings.Contains(errs.String(), "unknown flag "+flag) {
			t.Errorf("%s ends with %d: %s", flag, code, &errs)
		}
	}
}

// Each command says the same of itself whether kong knows it alone or all of them, and only it is known.
func TestGrammarOfOneCommand(t *testing.T) {
	said := func(grammar any, command string) string {
		var text strings.Builder
		parser, err := newParser(grammar, kong.Writers(&text, &text), kong.Exit(func(int) {}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse([]string{command, "--help"})
		if err != nil {
			text.WriteString(err.Error())
		}
		if text.Len() == 0 {
			t.Errorf("%s --help is %q", command, text.String())
		}
		return text.String()
	}
	for field := range reflect.TypeFor[cli]().Fields() {
		command := strings.ToLower(field.Name)
		alone := grammar([]string{command})
		if fields := reflect.TypeOf(alone).Elem().NumField(); command != "completion" && fields != 1 {
			t.Errorf("the grammar of %s has %d commands", command, fields)
		}
		if got, want := said(alone, command), said(&cli{}, command); got != want {
			t.Errorf("%s --help, known alone:\n%s\namong all:\n%s", command, got, want)
		}
	}
	for _, args := range [][]string{nil, {"--help"}, {"inspec"}} {
		if _, full := grammar(args).(*cli); !full {
			t.Errorf("the grammar of %q lacks commands", args)
		}
	}
}
