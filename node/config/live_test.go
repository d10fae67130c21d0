package config

import (
	"strings"
	"testing"

	"ringlet/readoutunit/source"
	"ringlet/testkit/livetest"
)

func init() { source.AddForTest(livetest.Kind(func(string) *livetest.Feed { return nil })) }

func TestLiveShares(t *testing.T) {
	for _, c := range []struct {
		input               string
		nodes, rus, streams int // 0: left open
		wantRUs, wantEach   int
		refused             string
	}{
		{input: "fake:a", wantRUs: 1, wantEach: 1},
		{input: "fake:a,fake:b,fake:c", wantRUs: 3, wantEach: 1},
		{input: "fake:a,fake:b,fake:c,fake:d,fake:e,fake:f", wantRUs: 3, wantEach: 2},
		{input: "fake:a,b,c,fake:d", wantRUs: 2, wantEach: 1}, // the first address has commas
		{input: "fake:a,fake:b,fake:c,fake:d", nodes: 2, wantRUs: 2, wantEach: 2},
		{input: "fake:a,fake:b", nodes: 4, refused: "evenly"},
		{input: "fake:a,fake:b", streams: 2, refused: "leave out streams"},
		{input: "x.mdf,fake:b", refused: "no live source"},
	} {
		n := Default()
		n.Input, n.Nodes, n.Streams = c.input, c.nodes, c.streams
		err := n.Complete()
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || n.RUs != c.wantRUs || n.Streams != c.wantEach || n.Duration != 0 || !n.Live():
			t.Errorf("%+v: %d readout units with %d sources, %v: %v", c, n.RUs, n.Streams, n.Duration, err)
		}
	}
}

func TestLiveRefusals(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"leave out rate":         func(c *Config) { c.Rate = 10 },
		"leave out loop":         func(c *Config) { c.Loop = true },
		"use crc":                func(c *Config) { c.Verify = VerifyFull },
		"fragment-timeout":       func(c *Config) { c.FragmentTimeout = 0 },
		"flush-after":            func(c *Config) { c.FlushAfter = -1 },
		"leave out prepared":     func(c *Config) { c.Prepared = 3 },
		"mark, wait, stop":       func(c *Config) { c.OnMissing = "hope" },
		"leave out fragment-mod": func(c *Config) { c.FragmentModel = modelLHCb },
	} {
		c := Default()
		c.Input = "fake:a"
		if change(&c); c.Complete() == nil || !strings.Contains(c.Complete().Error(), want) {
			t.Errorf("%v does not say %q", c.Complete(), want)
		}
	}
}
