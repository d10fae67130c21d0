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
		c := Completed{Default()}
		c.DecisionNode, c.Duration = "n1", time.Second
		tt.change(&c.Config)
		c.Debug.LookAhead = c.Slots
		if c.RUs == 1 {
			c.Nodes = 2
		}
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		if c.EffectiveDecisionTimeout() != tt.timeout || c.MaxPendingDecisions() != tt.depth {
			t.Errorf("%v, %d events; not %v, %d", c.EffectiveDecisionTimeout(), c.MaxPendingDecisions(), tt.timeout, tt.depth)
		}
	}
}

// A node without units is one that has the decision unit: the one between readout and builder units.
func TestDecisionNodeApart(t *testing.T) {
	for node, good := range map[string]bool{"n2": true, "n0": false, "n4": false, "": false} {
		c := Completed{Default()}
		c.Nodes, c.RUs, c.BUs, c.DecisionNode = 5, 2, 2, node
		if err := c.Complete(); (err == nil) != good {
			t.Errorf("%q: %v", node, err)
		} else if good && (c.DecisionRank([]string{"n0", "n1", "n2", "n3", "n4"}) != 2 || c.Roles()[2].RU != NoUnit ||
			c.Roles()[2].BU != NoUnit) {
			t.Errorf("%q: %+v", node, c.Roles())
		}
	}
	c := Completed{Default()}
	c.Nodes, c.RUs, c.BUs, c.DecisionNode, c.Members = 3, 1, 1, "dec", "a,dec,b"
	if err := c.Complete(); err != nil {
		t.Error(err)
	}
	if c.DecisionNode = ""; c.DecisionRank([]string{""}) != NoUnit {
		t.Error("nobody is named, and has a rank")
	}
}

// What was rejected is given up early only where nobody fetches it again: builder units pull, by a region, and the run
// tolerates the loss of none of them. What was fetched goes only where no output gets it.
func TestFreesRejected(t *testing.T) {
	for name, tt := range map[string]struct {
		change         func(*Config)
		frees, written bool
	}{
		"a share of MEPs":       {func(*Config) {}, true, true},
		"no decision unit":      {func(c *Config) { c.DecisionNode = "" }, false, false},
		"no region":             {func(c *Config) { c.RoI = "" }, false, false},
		"senders that push":     {func(c *Config) { c.RoI, c.Discipline = "", "shift" }, false, false},
		"one may be lost":       {func(c *Config) { c.BuilderLoss = "at-least 3 of 4" }, false, false},
		"all but one":           {func(c *Config) { c.BuilderLoss = "expendable" }, false, false},
		"none, in other words":  {func(c *Config) { c.BuilderLoss = "at-least 4 of 4" }, true, true},
		"a readout unit is not": {func(c *Config) { c.ReadoutLoss = "expendable" }, true, true},
		"a filter, no output":   {func(c *Config) { c.Filter = "share:0.1" }, true, true},
		"a filter, one output":  {func(c *Config) { c.Filter, c.Output = "share:0.1", "mep:out/" }, true, false},
		"a share, and then a filter": {func(c *Config) {
			c.RoI, c.Filter, c.Output = "0:0.5", "share:0.1", "mep:out/"
		}, true, false},
		"a share, one output": {func(c *Config) { c.RoI, c.Output = "0:0.5", "mep:out/" }, true, true},
		"rejected events kept": {func(c *Config) {
			c.Filter, c.Output, c.OutputBy = "share:0.1", "mep:acc/,mep:rej/", "decision"
		}, true, false},
		"rejected events dropped": {func(c *Config) {
			c.Filter, c.Output, c.OutputBy = "share:0.1", "mep:acc/,discard:", "decision"
		}, true, true},
		"some MEPs of any kind dropped": {func(c *Config) {
			c.Filter, c.Output = "share:0.1", "mep:out/,discard:"
		}, true, false},
	} {
		c := Completed{Default()}
		c.Discipline, c.RoI, c.DecisionNode, c.Duration = "pull", "0", "n1", time.Second
		tt.change(&c.Config)
		if err := c.Complete(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if frees, written := c.FreesRejected(); frees != tt.frees || written != tt.written {
			t.Errorf("%s: %v, %v; not %v, %v", name, frees, written, tt.frees, tt.written)
		}
	}
}
