package main

import (
	"strings"
	"testing"
)

const good = `{"accounting_ok":true,"events_triggered":8,"events_built":7,"events_discarded":1,` +
	`"events_rejected":0,"events_abandoned":0,"end_cause":"duration","more":1}`

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           string // part of the problems; "" means good
	}{
		{"good", "", "", ""},
		{"accounts", `"accounting_ok":true`, `"accounting_ok":false`, "accounting_ok is false"},
		{"nothing", `"events_built":7`, `"events_built":0`, "no event was built"},
		{"sum", `"events_triggered":8`, `"events_triggered":9`, "9 events were triggered but 8 have an outcome"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := read(strings.NewReader(strings.Replace(good, c.from, c.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(r.problems(), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("problems = %q, want %q", got, c.want)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"empty":   "",
		"text":    "done\n",
		"missing": `{"accounting_ok":true}`,
		"negative": strings.Replace(good, `"events_built":7`,
			`"events_built":-7`, 1),
		"two": good + good,
	} {
		if _, err := read(strings.NewReader(in)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
