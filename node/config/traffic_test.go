package config

import "testing"

func TestSlackIsFittedToTheCarrier(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edit  func(*Config)
		shown int // by Effective
		slack int
	}{
		{"a network", func(c *Config) { c.Transport = "quic" }, 0, 0},
		{"the host, or a network", func(c *Config) { c.Transport = "auto" }, 0, 0},
		{"the host", func(c *Config) { c.Transport = "local" }, 3, 3},
		{"a network within a host", func(c *Config) { c.Transport, c.OneHost = "quic", true }, 3, 3},
		{"phases by time within a host", func(c *Config) { c.OneHost, c.PhaseEnd = true, "20ms" }, 0, 0},
		{"a node alone", func(c *Config) { c.Transport, c.Nodes = "local", 1 }, 0, 0},
		{"more builder units", func(c *Config) { c.Transport, c.Nodes, c.RUs, c.BUs = "local", 0, 2, 5 }, 4, 4},
		{"dummies", func(c *Config) { c.Transport, c.Seats = "local", "0,-,1,2,-,3" }, 5, 5},
		{"many", func(c *Config) { c.Transport, c.Nodes = "local", 64 }, 16, 16},
		{"no phases", func(c *Config) { c.Transport, c.Discipline = "local", "pull" }, 0, 0},
		{"phases by time", func(c *Config) { c.Transport, c.PhaseEnd = "local", "20ms" }, 0, 0},
		{"none wanted", func(c *Config) { c.Transport, c.PhaseSlack = "local", 0 }, 0, 0},
		{"more than counts", func(c *Config) { c.PhaseSlack = 9 }, 9, 3},
	} {
		c := Completed{Default()}
		tc.edit(&c.Config)
		if err := c.Complete(); err != nil || c.PhaseSlack != tc.shown || c.EffectiveSlack() != tc.slack {
			t.Errorf("%s: %d, of which %d count: %v", tc.name, c.PhaseSlack, c.EffectiveSlack(), err)
		}
	}
}
