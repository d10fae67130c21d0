package core

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// view is a small view.
func view(rus, bus int) Config {
	return Config{
		RUs:     names("ru", rus),
		BUs:     names("bu", bus),
		Slots:   2,
		Packing: 1,
	}
}

func TestConfigRefused(t *testing.T) {
	good := Config{
		RUs:     []string{"a"},
		BUs:     []string{"a"},
		Slots:   1,
		Packing: 1,
	}
	if _, err := NewAllocator(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"0 readout units":                   func(c *Config) { c.RUs = nil },
		"builder unit 0 has no name":        func(c *Config) { c.BUs = []string{""} },
		"two builder units are called":      func(c *Config) { c.BUs = []string{"x", "x"} },
		"slots per builder unit is 0":       func(c *Config) { c.Slots = 0 },
		"slots per builder unit is 1677721": func(c *Config) { c.Slots = MaxSlots + 1 },
		"packing factor is 65536":           func(c *Config) { c.Packing = 65536 },
		"look-ahead is -1":                  func(c *Config) { c.LookAhead = -1 },
		"window is -5":                      func(c *Config) { c.Window = -5 },
		"attempts is 256":                   func(c *Config) { c.MaxAttempts = 256 },
		"policy is 2":                       func(c *Config) { c.NoSlotPolicy = 2 },
		"marks the end of the run":          func(c *Config) { c.FirstMEP = NoMEP },
		"before the first MEP 9":            func(c *Config) { c.FirstMEP, c.EndMEP = 9, 8 },
	} {
		cfg := good
		change(&cfg)
		if _, err := NewAllocator(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a sentence with %q", err, want)
		}
	}
}

func TestDepth(t *testing.T) {
	d := newDepth(16)
	for _, v := range []uint64{3, 4, 3, 4, 8, 12, 2, 16, 14, 16} {
		d.set(v)
	}
	if want := []uint64{3, 2, 2, 1}; !slices.Equal(d.Crossed, want) || d.Full != 2 || d.Max != 16 || d.Usage != 0xF {
		t.Errorf("got %v, want crossed %v", d.message(), want)
	}
	small := newDepth(1)
	small.set(1)
	if small.Full != 1 || small.Usage != 0xF {
		t.Errorf("a queue of one: %v", small.message())
	}
}

// TestCrowded holds when it pays to wait for more outcomes: never in a small view, and never with nothing in flight.
func TestCrowded(t *testing.T) {
	for _, tt := range []struct {
		slots, ahead, bus, inFlight int
		want                        bool
	}{
		{4, 2, 4, 8, false},
		{4096, 4096, 2, 8192, true},
		{4096, 4096, 2, 8192 - 1023, true},
		{4096, 4096, 2, 8192 - 1024, false},
		{4096, 4096, 2, 0, false},
		{4096, 64, 2, 128, false},
		{4096, 128, 2, 250, true},
	} {
		c := newAllocator(t, Config{
			RUs:       names("ru", 1),
			BUs:       names("bu", tt.bus),
			Slots:     tt.slots,
			LookAhead: tt.ahead,
			Packing:   1,
			Window:    1 << 14,
		})
		c.counters.Issued = uint64(tt.inFlight)
		if got := c.worthBatching(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestBeginning: the first cycle is waited for as long as it may still become full.
func TestBeginning(t *testing.T) {
	c := newAllocator(t, view(1, 3))
	c.Start()
	for _, step := range []struct {
		u    Update
		want bool
	}{{Update{}, false}, {Update{ReadBelow: 1, Events: 1}, true}, {Update{ReadBelow: 2, Events: 2}, true},
		{Update{ReadBelow: 2, Events: 2, InputEnded: true}, false}} {
		must(t, c.ApplyUpdate(0, step.u))
		if got := c.firstCycleIncomplete(); got != step.want {
			t.Errorf("after %+v beginning is %v", step.u, got)
		}
	}
	c = newAllocator(t, view(1, 3))
	c.Start()
	if err := c.ApplyUpdate(0, Update{ReadBelow: 3, Events: 3}); err != nil || c.firstCycleIncomplete() {
		t.Errorf("a full cycle waits (%v)", err)
	}
}

// TestLargeTagRing holds that a ring has no more readout units than its tags have bits.
func TestLargeTagRing(t *testing.T) {
	cfg := Config{
		RUs:     names("ru", MaxTagRingRUs+1),
		BUs:     names("bu", 1),
		Slots:   1,
		Packing: 1,
		TagRing: true,
	}
	if _, err := NewAllocator(cfg); err == nil {
		t.Error("it is taken")
	}
	cfg.RUs = cfg.RUs[:MaxTagRingRUs]
	core := newAllocator(t, cfg)
	core.Start()
	for ru := range cfg.RUs {
		must(t, core.ApplyUpdate(ru, Update{ReadBelow: 1, Events: 1, InputEnded: true}))
	}
	var batch Batch
	batch.Reset(0, 1)
	core.Issue(&batch)
	tags := core.LaunchTags(nil)
	for ru := range cfg.RUs {
		tags[0].Served.Add(ru)
	}
	must(t, core.ReturnTag(MaxTagRingRUs-1, &tags[0]))
}

// TestAbandonedTagRing holds that tags under way are counted when the run is given up.
func TestAbandonedTagRing(t *testing.T) {
	core := newAllocator(t, Config{
		RUs:     names("ru", 1),
		BUs:     names("bu", 2),
		Slots:   2,
		Packing: 1,
		TagRing: true,
		Loose:   true,
	})
	core.Start()
	must(t, core.ApplyUpdate(0, Update{ReadBelow: 4, Events: 4}))
	var batch Batch
	batch.Reset(0, 2)
	core.Issue(&batch)
	tags := core.LaunchTags(nil)
	core.abandon()
	if g := core.tagRing.counters; core.State() != Drained || g.Abandoned != 2 || g.Dropped != 2 ||
		core.tagRing.fifoDepth.Now != 0 {
		t.Errorf("%s, %v", core.State(), g)
	}
	if err := core.ReturnTag(0, &tags[0]); !errors.Is(err, TagTwice) {
		t.Errorf("%v", err)
	}
}
