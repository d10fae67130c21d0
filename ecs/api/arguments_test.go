package api

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func machine() *ecsv1.FSM {
	arg := func(name, kind string, required bool) *ecsv1.Argument {
		return &ecsv1.Argument{
			Name:     name,
			Type:     kind,
			Help:     "what it is",
			Required: required,
		}
	}
	return &ecsv1.FSM{Commands: []*ecsv1.CommandDescription{
		{Name: "load", Arguments: []*ecsv1.Argument{arg("configuration", "yaml", false), arg("settings", "settings", false)}},
		{Name: "start", Arguments: []*ecsv1.Argument{arg("duration", "duration", false), arg("remark", "string", false),
			arg("events", "uint", false), arg("dry", "bool", false)}},
		{Name: "exclude", Arguments: []*ecsv1.Argument{arg("node", "node", true)}},
		{Name: "stop"},
	}}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		command, name, value string
		want                 string // empty: taken
	}{
		{"halt", "", "", `command: "halt" is no command; the commands are load, start, exclude, stop`},
		{"", "", "", `command: "" is no command`},
		{"stop", "", "", ""},
		{"stop", "now", "yes", `arguments.now: stop has no argument "now", it takes none`},
		{"start", "durations", "3s", `it takes duration, remark, events, dry`},
		{"start", "duration", "3s", ""},
		{"start", "duration", "", ""},
		{"start", "duration", "3", "is no duration"},
		{"start", "duration", "-3s", "is no duration"},
		{"start", "events", "10", ""},
		{"start", "events", "-1", "is no whole number"},
		{"start", "dry", "maybe", "neither true nor false"},
		{"start", "dry", "true", ""},
		{"start", "remark", "Ünïcode is well", ""},
		{"start", "remark", "two\nlines", "control character"},
		{"start", "remark", strings.Repeat("x", maxWord+1), "at most 1024 are allowed"},
		{"exclude", "", "", "arguments.node: exclude needs it"},
		{"exclude", "node", "", "exclude needs it"},
		{"exclude", "node", "n0", ""},
		{"exclude", "node", "n0.3", ""},
		{"exclude", "node", "n0.03", "cannot be the name"},
		{"exclude", "node", "../n0", "cannot be the name"},
		{"exclude", "no de", "n0", `arguments."no de"`},
		{"load", "settings", "rate=3\n\nnodes = 4\n", ""},
		{"load", "settings", "rate", `"rate" is not name=value`},
		{"load", "settings", "=3", "is not name=value"},
		{"load", "configuration", strings.Repeat("x", maxText+1), "are allowed"},
		{"load", "configuration", "nodes: 4\n", ""},
	} {
		req := &ecsv1.CommandRequest{Command: c.command}
		if c.name != "" {
			req.Arguments = map[string]string{c.name: c.value}
		}
		err := checkRequest(machine(), req)
		var typed *ArgumentError
		if (err == nil) != (c.want == "") || err != nil && (!errors.As(err, &typed) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s=%.20q: %v; want %q", c.command, c.name, c.value, err, c.want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("start", "duration", "3s")
	f.Add("exclude", "node", "n0")
	f.Add("load", "settings", "a=b\nc")
	f.Add("halt", "\x00", strings.Repeat("y", 3000))
	f.Fuzz(func(t *testing.T, command, name, value string) {
		err := checkRequest(machine(), &ecsv1.CommandRequest{Command: command, Arguments: map[string]string{name: value}})
		if err == nil {
			return
		}
		var typed *ArgumentError
		if !errors.As(err, &typed) {
			t.Fatalf("%v has no type", err)
		}
		if s := err.Error(); !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\n\r\x1b") || len(s) > 1000 {
			t.Fatalf("the answer is %q", s)
		}
	})
}
