package config

import "testing"

// TestPreGranted holds where windows are pre-granted, how many slots there are then, and how many cycles make a
// round.
func TestPreGranted(t *testing.T) {
	small := func(c *Config) {
		c.Nodes, c.Packing, c.Streams, c.FragmentSize, c.FragmentModel = 2, 1, "1", 128, "constant"
	}
	for _, c := range []struct {
		name                string
		change              func(*Config)
		preGranted          bool
		slots, ahead, round int
		size                Bytes // 0: not looked at
	}{
		{"default", func(*Config) {}, false, 5, 4, 2, 0},
		{"two nodes, one event", func(c *Config) { small(c); c.PhaseEnd = "none" }, true, 4096, 4096, 2048, 384},
		{"the same in phases", small, true, 4096, 4096, 2048, 384},
		{"the same, free", func(c *Config) { small(c); c.Discipline = "free" }, true, 4096, 4096, 2048, 384},
		{"the same, by seats", func(c *Config) { small(c); c.Seats = "1,0" }, true, 4096, 4096, 2048, 384},
		{"the same, pulled", func(c *Config) { small(c); c.Discipline = "pull" }, false, 64, 64, 32, 0},
		{"the same, in a ring", func(c *Config) { small(c); c.Discipline = "tagring" }, false, 64, 64, 32, 0},
		{"three and 26", func(c *Config) { small(c); c.Nodes, c.RUs, c.BUs = 0, 3, 26 }, true, 4096, 4096, 2048, 576},
		{"the same, free", func(c *Config) {
			small(c)
			c.Nodes, c.RUs, c.BUs, c.Discipline = 0, 3, 26, "free"
		}, true, 1024, 1024, 512, 576},
		{"a pair, 1 MiB", func(c *Config) { c.RUs, c.BUs, c.Packing, c.Streams = 1, 1, 8000, "1" }, false, 30, 15, 3, 0},
		{"four, 1 MiB", func(c *Config) { c.Nodes, c.Packing, c.Streams = 4, 2000, "1" }, false, 30, 30, 15, 0},
		{"said slots", func(c *Config) { c.Packing, c.Slots = 1, 9 }, true, 9, 9, 4, 0},
		{"said both", func(c *Config) { c.Packing, c.Slots, c.Debug.LookAhead = 1, 9, 3 }, true, 9, 3, 1, 0},
		{"slots below the windows", func(c *Config) { c.Packing, c.SlotSize = 1, 1800 }, false, 64, 64, 32, 1800},
		{"input", func(c *Config) { c.Input, c.Packing = "x.mdf", 1 }, false, 4, 2, 1, 0},
	} {
		got := configWith(c.change)
		if err := got.Complete(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if preGranted := got.PreGrantedLayout() != nil; preGranted != c.preGranted || got.Slots != c.slots ||
			got.Debug.LookAhead != c.ahead || got.CyclesPerRound() != c.round {
			t.Errorf("%s: pre-granted %v, %d slots, look-ahead %d, rounds of %d", c.name, preGranted, got.Slots,
				got.Debug.LookAhead, got.CyclesPerRound())
		}
		if got.Input != "" {
			continue
		}
		if err := got.FitSlot(); err != nil || c.size != 0 && got.SlotSize != c.size {
			t.Errorf("%s: slots of %d bytes, %v", c.name, got.SlotSize, err)
		}
		if err := got.Complete(); err != nil || (got.PreGrantedLayout() != nil) != c.preGranted {
			t.Errorf("%s, completed again: %v, pre-granted %v", c.name, err, got.PreGrantedLayout() != nil)
		}
	}
}
