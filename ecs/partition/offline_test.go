package partition_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// What is refused without a cluster is refused by a control that asks its nodes, in the same sentences: by its check,
// and by load.
func TestOfflineAndOnlineSayTheSame(t *testing.T) {
	h := newHouse(t, 2, nil)
	const text = "nodes: 2\npacking: 500\nslots: 4\nfragment-size: 30\n"
	offline := []config.NodeFacts{{Name: "n0"}, {Name: "n1"}}
	for what, tc := range map[string]struct{ text, setting string }{
		"a misspelt key":                 {text + "pakcing: 3\n", "seed=1"},
		"a misspelt setting":             {text, "pakcing=3"},
		"an unknown node":                {text, "members=n0,n7"},
		"an unknown node for the tagnet": {text, "tagnet-node=n7"},
		"two nodes of one name":          {text, "members=n0,n0"},
		"more nodes than there are":      {text, "nodes=3"},
		"too little memory":              {text, "node-memory=1MiB"},
		"a slot too small":               {text, "slot-size=1kB"},
		"words that mean nothing":        {text, "packing"},
	} {
		c, err := config.Compose("configuration", []byte(tc.text), []string{tc.setting})
		if err == nil {
			err = c.Check(offline)
		}
		var invalid *config.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s is taken without a cluster: %v", what, err)
			continue
		}
		var want []string
		for _, p := range invalid.Problems {
			want = append(want, p.String())
		}
		r := h.Check(t.Context(), &ecsv1.CheckConfigurationRequest{Configuration: tc.text, Settings: []string{tc.setting}})
		if r.GetOk() || !slices.Equal(r.GetProblems(), want) {
			t.Errorf("%s\nis refused by a control with %q\nand without one with %q", what, r.GetProblems(), want)
		}
		if err := h.ask("load", "configuration", tc.text, "settings", tc.setting); err == nil ||
			!strings.Contains(err.Error(), want[0]) {
			t.Errorf("%s: load says %v, and not %q", what, err, want[0])
		}
	}
}
