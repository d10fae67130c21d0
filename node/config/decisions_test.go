package config

import (
	"testing"
	"time"
)

func TestDecisions(t *testing.T) {
	for _, tt := range []struct {
		change  func(*Config)
		timeout time.Duration
		depth   int
	}{
		{func(c *Config) { c.Packing, c.BUs, c.RUs, c.Slots = 1, 1, 1, 4 }, 1600 * time.Microsecond, 1820},
		{func(c *Config) { c.Packing, c.Slots = 4000, 4 }, 6400 * time.Millisecond, 4 * 4 * 4 * 4000},
		{func(c *Config) { c.Packing, c.Slots = 65535, 16 }, 10 * time.Second, 4 * 4 * 16 * 65535},
		{func(c *Config) { c.DecisionTimeout, c.Slots, c.Packing = time.Second, 4, 4000 }, time.Second, 256000},
	} {
		c := Default()
		c.DecisionNode, c.Duration = "n1", time.Second
		tt.change(&c)
		c.Debug.LookAhead = c.Slots
		if c.RUs == 1 {
			c.Nodes = 2
		}
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		if c.DecisionTime() != tt.timeout || c.DecisionDepth() != tt.depth {
			t.Errorf("%v, %d events; not %v, %d", c.DecisionTime(), c.DecisionDepth(), tt.timeout, tt.depth)
		}
	}
}

// A node without units is one that has the decision unit: the one between readout and builder units.
func TestDecisionNodeApart(t *testing.T) {
	for node, good := range map[string]bool{"n2": true, "n0": false, "n4": false, "": false} {
		c := Default()
		c.Nodes, c.RUs, c.BUs, c.DecisionNode = 5, 2, 2, node
		if err := c.Complete(); (err == nil) != good {
			t.Errorf("%q: %v", node, err)
		} else if good && (c.DecisionRank([]string{"n0", "n1", "n2", "n3", "n4"}) != 2 || c.Roles()[2].RU != None ||
			c.Roles()[2].BU != None) {
			t.Errorf("%q: %+v", node, c.Roles())
		}
	}
	c := Default()
	c.Nodes, c.RUs, c.BUs, c.DecisionNode, c.Members = 3, 1, 1, "dec", "a,dec,b"
	if err := c.Complete(); err != nil {
		t.Error(err)
	}
	if c.DecisionNode = ""; c.DecisionRank([]string{""}) != None {
		t.Error("nobody is named, and has a rank")
	}
}
