package config

import (
	"strings"
	"testing"
	"time"
)

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		change func(*Config)
		want   string // part of the error; empty: it is in order
	}{
		{func(c *Config) { c.Packing, c.Filter = 1, "share:0.5,20ms" }, ""},
		{func(c *Config) { c.Packing, c.Filter, c.Output, c.OutputBy = 1, "share:1", "a/,discard:", "decision" }, ""},
		{func(c *Config) { c.Output, c.OutputBy = "a/,b/", "decision" }, "needs the decisions of a filter"},
		{func(c *Config) { c.Packing, c.Filter = 1, "maybe" }, "one of vertex, process, share"},
		{func(c *Config) { c.Filter = "share:0.5" }, ""},
		{func(c *Config) { c.Packing, c.Filter, c.OutputBy = 1, "share:1", "decision" }, "leave out output-by"},
		{func(c *Config) { c.Packing, c.Filter = 1, "vertex" }, "give fragment-model velo"},
		{func(c *Config) { c.Packing, c.Filter, c.Nodes, c.FragmentModel = 1, "vertex", 2, "velo" }, ""},
	} {
		c := configWith(tc.change)
		err := c.Complete()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q is not in: %v", tc.want, err)
		}
		if _, ok := c.FilterChoice(); err == nil && !ok {
			t.Error("there is no filter")
		}
	}
	c := configWith(func(c *Config) { c.Packing, c.Filter = 1, "share:0.5,20ms" })
	if choice, ok := c.FilterChoice(); !ok || choice.Deadline != 20*time.Millisecond {
		t.Errorf("%+v %v", choice, ok)
	}
}
