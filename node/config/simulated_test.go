package config

import (
	"strings"
	"testing"
)

// TestSimulatedDetector: every board has a source; what the detector does not have is refused with a way out.
func TestSimulatedDetector(t *testing.T) {
	c := Completed{Default()}
	c.Nodes, c.Packing, c.FragmentModel = 3, 10, "velo"
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	low, high := c.MEPSize(0)
	if c.Streams != "34,33,33" || low < 10*100*8 || high > 10*100*270+20_000 || low >= high {
		t.Errorf("%s streams, MEPs from %d to %d bytes", c.Streams, low, high)
	}
	if rule, err := c.Pattern(); rule != nil || err != nil {
		t.Error(rule, err)
	}
	if _, _, ok := c.FragmentSpread(); ok {
		t.Error("the spread of its fragments is known")
	}
	s, err := c.SourceSettings(1)
	if err != nil || s.Content == nil || s.Content.MinSources != 100 {
		t.Error(s.Content, err)
	}
	for want, change := range map[string]func(c *Config){
		"give sources 100, or leave out":    func(c *Config) { c.Nodes, c.Streams = 4, "24" },
		"the 256 boards that a fragment":    func(c *Config) { c.Streams = "100" },
		"leave out fragment-size":           func(c *Config) { c.FragmentSize = 100 },
		"use crc":                           func(c *Config) { c.Verify = VerifyFull },
		"leave out debug.large-every":       func(c *Config) { c.Debug.LargeEvery = 3 },
		"of a simulated detector send what": func(c *Config) { c.FragmentSize = 1 },
	} {
		c := Completed{Default()}
		c.Nodes, c.Packing, c.FragmentModel = 3, 10, "velo"
		change(&c.Config)
		if err := c.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
