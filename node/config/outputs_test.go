package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	existing := t.TempDir()
	for _, c := range []struct {
		name                  string
		input, output, format string
		wantOutput, want      string
		single                bool
	}{
		{"nothing", "", "", "auto", "", "discard", false},
		{"mdf file", "", "x.mdf", "auto", "x.mdf", "mdf", true},
		{"mep file", "", "x.mep", "auto", "x.mep", "mep", true},
		{"mep file said", "", "x.mep", "mep", "x.mep", "mep", true},
		{"new directory", "", "out/", "auto", "out/", "mep", false},
		{"new directory of a replay", "in.mdf", "out/", "auto", "out/", "mdf", false},
		{"new directory of a replay of MEPs", "in.mep", "out/", "auto", "out/", "mep", false},
		{"directory, format said", "in.mdf", "out/", "mep", "out/", "mep", false},
		{"existing directory", "", existing, "mdf", existing + "/", "mdf", false},
		{"buffer", "", "events", "buffer", "events", "buffer", false},
		{"buffer without a name", "", "", "buffer", "", "buffer", false},
		{"address", "", "udp:h:19522", "auto", "udp:h:19522", "udp", false},
		{"shared buffer", "", "buffer:events?share", "auto", "events?share", "buffer", false},
		{"a comma in a path", "", "/a,b/out/", "auto", "/a,b/out/", "mep", false},
		{"buffer, format before", "", "buffer:events", "auto", "events", "buffer", false},
		{"directory, format before", "", "mdf:out/", "mdf", "out/", "mdf", false},
		{"discard", "", "discard:", "auto", "", "discard", false},
		{"several", "in.mdf", "out/,x.mep,buffer:b,udp:h:1?mtu=900,discard:", "auto",
			"mdf:out/,mep:x.mep,buffer:b,udp:h:1?mtu=900,discard:", "auto", false},
	} {
		got := configWith(func(n *Config) { n.Input, n.Output, n.Format = c.input, c.output, c.format })
		if err := got.Complete(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Output != c.wantOutput || got.Format != c.want || got.SingleFile() != c.single {
			t.Errorf("%s: output %q format %q single %v", c.name, got.Output, got.Format, got.SingleFile())
		}
	}
}

// TestOutputs holds that several outputs are taken apart as each alone would be, also when they are completed again.
func TestOutputs(t *testing.T) {
	c := configWith(func(n *Config) { n.Output, n.OutputBy = "out/,buffer:b,x.mdf,udp:h:1,discard:", "all" })
	for range 2 {
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range c.Outputs() {
			if err := one.Complete(); err != nil || len(one.Outputs()) != 1 {
				t.Errorf("%s alone: %v", one.Output, err)
			}
			got = append(got, one.Format+" "+one.Output)
		}
		want := []string{"mep out/", "buffer b", "mdf x.mdf", "udp udp:h:1", "discard "}
		if !slices.Equal(got, want) || len(c.FileOutputs()) != 2 || !c.WritesFiles() || !c.Route().ToAll {
			t.Errorf("%q of %s", got, c.Output)
		}
	}
	err := c.MapPaths(func(path string) (string, error) { return "/data/" + path, nil })
	if want := "mep:/data/out/,buffer:b,mdf:/data/x.mdf,udp:h:1,discard:"; err != nil || c.Output != want {
		t.Errorf("%v, %s", err, c.Output)
	}
	err = c.MapPaths(func(path string) (string, error) { return "/a,b/" + path, nil })
	if err == nil || !strings.Contains(err.Error(), "there is a comma in the path") {
		t.Errorf("a comma that would take the path apart: %v", err)
	}
	c = configWith(func(n *Config) { n.Output = "x.mdf" })
	err = errors.Join(c.Complete(), c.MapPaths(func(path string) (string, error) { return "/" + path, nil }), c.Complete())
	if err != nil || c.Output != "/x.mdf" {
		t.Errorf("%v, %s", err, c.Output)
	}
}

func TestOutputIsNotTheInput(t *testing.T) {
	dir := t.TempDir()
	in, link, hard := filepath.Join(dir, "x.mdf"), filepath.Join(dir, "y.mdf"), filepath.Join(dir, "z.mdf")
	if err := errors.Join(os.WriteFile(in, []byte("x"), 0o600), os.Symlink("x.mdf", link), os.Link(in, hard),
		os.WriteFile(filepath.Join(dir, "other.mdf"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{in, dir + "/./x.mdf", dir + "/../" + filepath.Base(dir) + "/x.mdf", link, hard} {
		c := configWith(func(c *Config) { c.Input, c.Output = in, out })
		if err := c.Complete(); err == nil || !strings.Contains(err.Error(), "is the input: it would be overwritten") {
			t.Errorf("%s: %v", out, err)
		}
	}
	for _, out := range []string{dir + "/new.mdf", dir + "/other.mdf", dir + "/"} {
		c := configWith(func(c *Config) { c.Input, c.Output = in, out })
		if err := c.Complete(); err != nil {
			t.Errorf("%s: %v", out, err)
		}
	}
}
