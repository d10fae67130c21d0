package main

import (
	"strings"
	"testing"

	"ringlet/testkit/must"
)

// TestListsAreGivenOnce: no input and no output is lost without a word, and a script may give another value behind its
// own.
func TestListsAreGivenOnce(t *testing.T) {
	const decided = "run --fragment-model velo --filter vertex --decision-node n0"
	for line, says := range map[string]string{
		"run --input a.mdf --input b.mdf":                                  "--input is given twice, and is one list",
		"run --output=a/ --nodes 2 --output a/":                            "--output mdf:dir/,buffer:NAME",
		decided + " --decision-output buffer:a --decision-output buffer:b": "--decision-output buffer:NAME,",
		"testbed up --ports n1=1Mbit --ports n2=2Mbit":                     "--ports n2=50Mbit,",
		"doctor --ports 7946 --ports 7947":                                 "",
		"run --nodes 2 --nodes 3":                                          "",
		"run --loop --loop --input a.mdf":                                  "",
		"certs dir n0 --host localhost --host 127.0.0.1":                   "",
	} {
		args := strings.Fields(line)
		parser, err := newParser(grammar(args))
		must.OK(t, err)
		switch _, err := parse(parser, args); {
		case says == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v does not say %q", line, err, says)
		}
	}
}
