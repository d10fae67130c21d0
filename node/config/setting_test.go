package config

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func value(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

func TestSetGivesOneSetting(t *testing.T) {
	for _, tc := range []struct {
		key, text string
		want      string // text of the flag, or part of the error
		bad       bool
	}{
		{"packing", "30", "30", false},
		{"duration", "1500ms", "1.5s", false},
		{"slot-size", "64MiB", "64MiB", false},
		{"debug.drop", "0.01", "0.01", false},
		{"verify", "full", "full", false},
		{"loop", "true", "true", false},
		{"packing", "1.5", `x.yaml:1: packing: "1.5" is not a whole number`, true},
		{"packing", "[1, 2]", "x.yaml:1: packing: expected a single value", true},
		{"verify", "wall", `x.yaml:1: verify: "wall" is not one of off, crc, `, true},
		{"paking", "3", `x.yaml:7: paking: there is no such setting; the nearest one is "packing"`, true},
	} {
		c := Completed{Default()}
		err := c.Set("x.yaml", 7, tc.key, value(t, tc.text))
		s, _ := c.Setting(tc.key)
		switch {
		case tc.bad && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %s: %v", tc.key, tc.text, err)
		case !tc.bad && (err != nil || s.FlagValue != tc.want):
			t.Errorf("%s: %s: %+v, %v", tc.key, tc.text, s, err)
		}
	}
}

func TestSettingHasItsFlag(t *testing.T) {
	c := Completed{Default()}
	c.Duration, c.Debug.Drop = 3*time.Second, 0.1
	for key, flag := range map[string]string{"duration": "duration", "debug.drop": "debug-drop"} {
		if s, ok := c.Setting(key); !ok || s.Flag != flag {
			t.Errorf("%s: %+v", key, s)
		}
	}
	if _, ok := c.Setting("no-such"); ok {
		t.Error("a setting that does not exist is there")
	}
	if len(SettingKeys()) < 20 {
		t.Errorf("%d keys", len(SettingKeys()))
	}
}

func TestFragmentSpread(t *testing.T) {
	for _, tc := range []struct {
		model       string
		mean, sigma float64
	}{{modelConstant, 100, 0}, {modelPoisson, 100, 10}, {modelLHCb, 100, 16.7}} { // lhcb: group means 84, 99, 117
		c := Completed{Default()}
		c.FragmentModel, c.FragmentSize, c.Nodes, c.Streams = tc.model, 100, 3, "3"
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		mean, sigma, ok := c.FragmentSpread()
		if d, e := mean-tc.mean, sigma-tc.sigma; !ok || d*d > 0.01 || e*e > 0.05 {
			t.Errorf("%s: %.2f ± %.2f", tc.model, mean, sigma)
		}
	}
	c := Completed{Default()}
	c.Input = "x.mdf"
	if _, _, ok := c.FragmentSpread(); ok {
		t.Error("an input's sizes are not known")
	}
}
