package partition_test

import (
	"errors"
	"slices"
	"testing"

	"ringlet/ecs/api"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// A configuration that is not good is refused before anything happens, with all that is wrong: without a cluster, and
// in the same sentences by a control that asks its nodes, by its check and by load.
func TestOfflineAndOnlineSayTheSame(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
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
		"a policy that cannot be":        {text + "builder-loss: at-least 5 of 9\n", "seed=1"},
	} {
		c, err := config.Compose("configuration", []byte(tc.text), []string{tc.setting})
		if err == nil {
			err = c.CheckNodes(offline)
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
		var refused *api.ConfigurationError
		if err := h.command("load", "configuration", tc.text, "settings", tc.setting); !errors.As(err, &refused) ||
			!slices.Equal(refused.Problems, want) {
			t.Errorf("%s: load says %v, and not %q", what, err, want)
		}
		if h.state() != "Offline" {
			t.Fatalf("%s: it is %s", what, h.state())
		}
	}
}
