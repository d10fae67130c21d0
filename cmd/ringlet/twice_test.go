package main

import (
	"strings"
	"testing"

	"ringlet/testkit/must"
)

// TestFlagsOfOneValueAreGivenOnce holds that no flag's first value is lost without a word.
func TestFlagsOfOneValueAreGivenOnce(t *testing.T) {
	for line, says := range map[string]string{
		"run --input a.mdf --input b.mdf":                "--input is given twice, and has one value",
		"run --output=a/ --nodes 2 --output a/":          "--output mdf:dir/,buffer:NAME",
		"run --nodes 2 --nodes 3":                        "--nodes is given twice",
		"run --loop --loop --input a.mdf":                "",
		"certs dir n0 --host localhost --host 127.0.0.1": "",
	} {
		args := strings.Fields(line)
		parser, err := newParser(grammar(args))
		must.OK(t, err)
		k, err := parser.Parse(args)
		must.OK(t, err)
		switch err := twice(k); {
		case says == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v does not say %q", line, err, says)
		}
	}
}
