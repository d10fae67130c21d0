package config

import (
	"strings"
	"testing"
	"time"
)

func TestLossPolicies(t *testing.T) {
	for _, tc := range []struct {
		text  string
		units int
		least int    // 0: refused
		says  string // of a refusal
	}{
		{"essential", 4, 4, ""},
		{"expendable", 4, 1, ""},
		{"at-least 3 of 4", 4, 3, ""},
		{"at-least 3 of 5", 4, 0, "speaks of 5 units, and there are 4"},
		{"at-least 5 of 4", 4, 0, "from 1 to the second"},
		{"at-least 0 of 4", 4, 0, "from 1 to the second"},
		{"atleast 3", 4, 0, "is no policy"},
		{"", 4, 0, "is no policy"},
	} {
		l, err := ParseLoss(tc.text, tc.units)
		if err != nil {
			if tc.least != 0 || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q: %v", tc.text, err)
			}
			continue
		}
		if tc.least == 0 || !l.Tolerates(tc.least) || l.Tolerates(tc.least-1) {
			t.Errorf("%q: tolerates from %d on", tc.text, l.MinUnits)
		}
	}
}

func TestRecoveryIsBounded(t *testing.T) {
	for text, want := range map[string]RecoveryBound{"never": {}, "3 in 10m": {3, 10 * time.Minute}} {
		if got, err := parseRecovery(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "always", "0 in 1m", "3 in 0s", "3 per 1m", "-1 in 1m"} {
		if _, err := parseRecovery(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestMembersAreChecked(t *testing.T) {
	for text, says := range map[string]string{
		"members: n0,n1,n1\nnodes: 3\n":               "two nodes are called n1",
		"members: n0,n1\nnodes: 3\n":                  "2 nodes are named, and the shape has 3",
		"members: n0,,n2\nnodes: 3\n":                 "name 1 is empty",
		"members: n0,n1\nnodes: 2\ntagnet-node: n7\n": "there is no node called n7: members are n0, n1",
		"nodes: 2\nbuilder-loss: at-least 2 of 3\n":   "speaks of 3 units, and there are 2",
		"nodes: 2\nrecovery: always\n":                "is no bound",
		"members: a, b\nnodes: 2\ntagnet-node: b\n":   "",
	} {
		c, err := readText("x.yaml", []byte(text))
		if err == nil {
			err = c.Complete()
		}
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
