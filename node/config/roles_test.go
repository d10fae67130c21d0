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
