package config

import "testing"

// TestPlacing holds what auto becomes, and how many slots there are then.
func TestPlacing(t *testing.T) {
	for _, c := range []struct {
		name         string
		change       func(*Config)
		placing      string
		slots, ahead int
		size         Bytes // 0: not looked at
	}{
		{"default", func(*Config) {}, "announce", 4, 2, 0},
		{"two nodes, one event", func(c *Config) {
			c.Nodes, c.Packing, c.Streams, c.FragmentSize, c.FragmentModel, c.PhaseEnd = 2, 1, 1, 128, "constant", "none"
		}, "quota", 4096, 4096, 384},
		{"the same in phases", func(c *Config) {
			c.Nodes, c.Packing, c.Streams, c.FragmentSize, c.FragmentModel = 2, 1, 1, 128, "constant"
		}, "quota", 32, 32, 384},
		{"three and 26", func(c *Config) {
			c.RUs, c.BUs, c.Packing, c.Streams, c.FragmentSize, c.FragmentModel, c.PhaseEnd = 3, 26, 1, 1, 128, "constant", "none"
		}, "quota", 1024, 1024, 576},
		{"said announce", func(c *Config) { c.Packing, c.Placing = 1, "announce" }, "announce", 64, 32, 0},
		{"a pair, 1 MiB", func(c *Config) { c.RUs, c.BUs, c.Packing, c.Streams = 1, 1, 8000, 1 }, "announce", 15, 7, 0},
		{"said quota", func(c *Config) { c.Placing = "quota" }, "quota", 4, 4, 0},
		{"said slots", func(c *Config) { c.Packing, c.Slots = 1, 9 }, "quota", 9, 9, 0},
		{"said both", func(c *Config) { c.Packing, c.Slots, c.Debug.LookAhead = 1, 9, 3 }, "quota", 9, 3, 0},
		{"slots below the quotas", func(c *Config) { c.Packing, c.SlotSize = 1, 1800 }, "announce", 64, 32, 1800},
		{"input", func(c *Config) { c.Input, c.Packing = "x.mdf", 1 }, "announce", 4, 2, 0},
	} {
		got := with(c.change)
		if err := got.Complete(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Placing != c.placing || got.Slots != c.slots || got.Debug.LookAhead != c.ahead {
			t.Errorf("%s: placing %s, %d slots, look-ahead %d", c.name, got.Placing, got.Slots, got.Debug.LookAhead)
		}
		if got.Input != "" {
			continue
		}
		if err := got.FitSlot(); err != nil || c.size != 0 && got.SlotSize != c.size {
			t.Errorf("%s: slots of %d bytes, %v", c.name, got.SlotSize, err)
		}
		if err := got.Complete(); err != nil {
			t.Errorf("%s, completed again: %v", c.name, err)
		}
	}
}
