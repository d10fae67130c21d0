package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ringlet/source"
	"ringlet/testkit/livetest"
)

func init() { source.AddKindForTest(livetest.NewRow(func(string) *livetest.Feed { return nil })) }

func TestLiveShares(t *testing.T) {
	for _, c := range []struct {
		input   string
		nodes   int    // 0: left open
		streams Counts // "": left open
		sources int
		want    []int // sources of each readout unit
		refused string
	}{
		{input: "fake:a", want: []int{1}},
		{input: "fake:a,fake:b,fake:c", want: []int{1, 1, 1}},
		{input: "fake:a,fake:b,fake:c,fake:d,fake:e,fake:f", want: []int{2, 2, 1, 1}},
		{input: "fake:a,b,c,fake:d", want: []int{1, 1}}, // the first address has commas
		{input: "fake:a,fake:b,fake:c,fake:d", nodes: 2, want: []int{2, 2}},
		{input: "fake:a,fake:b,fake:c", nodes: 2, want: []int{2, 1}},
		{input: "fake:a,fake:b,fake:c,fake:d", streams: "1,3", want: []int{1, 3}},
		{input: "fake:a,fake:b,fake:c,fake:d", nodes: 2, sources: 4, streams: "3,1", want: []int{3, 1}},
		{input: "fake:a,fake:b", nodes: 4, refused: "2 sources leave some of 4 readout units without any"},
		{input: "fake:a,fake:b", streams: "2", refused: "the input has 2 sources, and streams 2 are 4 on 2"},
		{input: "fake:a,fake:b", streams: "2,1", refused: "give numbers whose sum is 2"},
		{input: "fake:a,fake:b", streams: "2,0", refused: "readout unit 1 of 2 has no source"},
		{input: "fake:a,fake:b", sources: 3, refused: "the input has 2 sources, and not 3"},
		{input: "fake:a,fake:b", nodes: 1, streams: "1,1",
			refused: "1,1 are the sources of 2 readout units, and there are 1"},
		{input: "x.mdf,fake:b", refused: "no live source"},
	} {
		n := Default()
		n.Input, n.Nodes, n.Streams, n.Sources = c.input, c.nodes, c.streams, c.sources
		err := n.Complete()
		switch got := n.Division().Counts(); {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || !slices.Equal(got, c.want) || n.Duration != 0 || !n.HasLiveSources():
			t.Errorf("%+v: %v, %v: %v", c, got, n.Duration, err)
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

func TestHostBoundSource(t *testing.T) {
	c, err := Compose("x", []byte("nodes: 2\nstreams: 1,2\ninput: 'tcp:127.0.0.1:7000,udp::7001,shm:cam0'\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for ru, want := range []string{"", "shm:cam0"} {
		if got := c.HostBoundSource(ru); got != want {
			t.Errorf("readout unit %d: %q, want %q", ru, got, want)
		}
	}
}

// TestBusy refuses marks and receivers that cannot be.
func TestBusy(t *testing.T) {
	for text, key := range map[string]string{
		"busy: unix:/run/busy":                         "busy", // generated data have no trigger
		"input: tcp:127.0.0.1:7000\nbusy: unix:busy":   "busy",
		"busy-high: 50":                                "busy-low",
		"busy-low: -1":                                 "busy-low",
		"input: tcp:127.0.0.1:7000\nbusy: udp:a:9":     "",
		"input: tcp:127.0.0.1:7000\nbusy: unix:/run/b": "",
	} {
		_, err := Compose("test", []byte(text), nil)
		var invalid *InvalidError
		if errors.As(err, &invalid) != (key != "") || key != "" && invalid.Problems[0].Key != key {
			t.Errorf("%q: %v", text, err)
		}
	}
}
