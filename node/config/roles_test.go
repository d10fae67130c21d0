package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		name            string
		nodes, rus, bus int
		want            string // per rank: RU index, BU index
	}{
		{"one", 1, 0, 0, "n0 0 0"},
		{"folded", 3, 0, 0, "n0 0 0 | n1 1 1 | n2 2 2"},
		{"unfolded", 0, 2, 3, "n0 0 - | n1 1 - | n2 - 0 | n3 - 1 | n4 - 2"},
		{"partly", 4, 3, 2, "n0 0 - | n1 1 - | n2 2 0 | n3 - 1"},
	} {
		n := configWith(func(n *Config) { n.Nodes, n.RUs, n.BUs = c.nodes, c.rus, c.bus })
		if err := n.Complete(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, r := range n.Roles() {
			got = append(got, r.Name+" "+index(r.RU)+" "+index(r.BU))
		}
		if d := cmp.Diff(c.want, strings.Join(got, " | ")); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func index(i int) string {
	if i == NoUnit {
		return "-"
	}
	return string(rune('0' + i))
}

func TestRolesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "nodes")
		rus := rapid.IntRange(1, n).Draw(t, "rus")
		bus := rapid.IntRange(max(1, n-rus), n).Draw(t, "bus")
		c := configWith(func(c *Config) { c.Nodes, c.RUs, c.BUs = n, rus, bus })
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		nextRU, nextBU := 0, 0
		for rank, r := range c.Roles() {
			if r.Rank != rank || r.RU == NoUnit && r.BU == NoUnit {
				t.Fatalf("rank %d: %+v", rank, r)
			}
			if r.RU != NoUnit {
				if r.RU != nextRU {
					t.Fatalf("RU %d at rank %d, want %d", r.RU, rank, nextRU)
				}
				nextRU++
			}
			if r.BU != NoUnit {
				if r.BU != nextBU {
					t.Fatalf("BU %d at rank %d, want %d", r.BU, rank, nextBU)
				}
				nextBU++
			}
		}
		if nextRU != rus || nextBU != bus {
			t.Fatalf("%d RUs and %d BUs, want %d and %d", nextRU, nextBU, rus, bus)
		}
	})
}

// Members with roles are the shape, in whatever order they come; completing them twice changes nothing.
func TestMemberRoles(t *testing.T) {
	for text, want := range map[string]string{
		"members: 'n0:bu, n1:ru,n2:ru'":                       "n1 0 - | n2 1 - | n0 - 0",
		"members: b:both,a:both":                              "b 0 0 | a 1 1",
		"members: x:bu,y:both,z:ru\nnodes: 3":                 "z 0 - | y 1 0 | x - 1",
		"members: x:bu,y:ru\nrus: 1\nbus: 1":                  "y 0 - | x - 0",
		"members: n0:ru,n1":                                   "give each node one of the roles",
		"members: n0:ru,n1:reader":                            "give each node one of the roles",
		"members: n0:ru,n1:ru":                                "2 readout units and 0 builder units",
		"members: n0:ru,n1:bu\nrus: 2\nbus: 1":                "which nodes, rus or bus contradict",
		"members: n0:ru,n1:bu\nnodes: 3":                      "which nodes, rus or bus contradict",
		"members: n0:ru,n0:bu":                                "two nodes are called n0",
		"members: n0:ru,n1:bu\ntagnet-node: n2":               "there is no node called n2",
		"members: n0:ru,n1:bu\nreadout-loss: at-least 1 of 2": "speaks of 2 units, and there are 1",
	} {
		c, err := Compose("x", []byte(text), nil)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		var got []string
		for _, r := range c.Roles() {
			got = append(got, r.Name+" "+index(r.RU)+" "+index(r.BU))
		}
		if d := cmp.Diff(want, strings.Join(got, " | ")); d != "" {
			t.Errorf("%s: %s", text, d)
		}
		again := c.Config
		if err := again.Complete(); err != nil || again != c.Config {
			t.Errorf("%s: completed twice: %v, %+v", text, err, again)
		}
	}
}
