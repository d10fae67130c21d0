package config

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// command is what cmd/ringlet makes of the package.
type command struct {
	Run struct {
		Config Config          `embed:""`
		File   kong.ConfigFlag `name:"config"`
	} `cmd:""`
}

func parse(args ...string) (Config, error) {
	var cli command
	k, err := kong.New(&cli, KongVars, kong.Configuration(Loader), kong.Exit(func(int) {}),
		kong.Writers(io.Discard, io.Discard))
	if err != nil {
		return Config{}, err
	}
	_, err = k.Parse(append([]string{"run"}, args...))
	return cli.Run.Config, err
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFlagDefaultsAreTheDefault(t *testing.T) {
	got, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Default(), got); d != "" {
		t.Error(d)
	}
}

func TestEveryKeyIsAFlag(t *testing.T) {
	var cli command
	k, err := kong.New(&cli, KongVars, kong.Configuration(Loader))
	if err != nil {
		t.Fatal(err)
	}
	var flags, keys []string
	for _, f := range k.Model.Children[0].Flags {
		if f.Name != "config" {
			flags = append(flags, f.Name)
			if f.Help == "" || f.Group == nil {
				t.Errorf("--%s has no help or no group", f.Name)
			}
		}
	}
	var c Config
	for _, f := range settingFields(&c) {
		keys = append(keys, f.flag)
	}
	sort.Strings(flags)
	sort.Strings(keys)
	if d := cmp.Diff(keys, flags); d != "" {
		t.Error(d)
	}
}

func TestFlagsWinOverFileOverDefault(t *testing.T) {
	file := writeFile(t,
		"nodes: 8\nrate: 2.5e6\nslot-size: 96MiB\nduration: 1m\nloop: true\ninput: a b.mdf\ndebug: {drop: 0.25, "+
			"large-factor: 9}\n")
	got, err := parse("--config", file, "--nodes", "2", "--seed=5", "--debug-large-factor=3")
	if err != nil {
		t.Fatal(err)
	}
	want := configWith(func(c *Config) {
		c.Nodes, c.Seed, c.Debug.Drop, c.Debug.LargeFactor = 2, 5, 0.25, 3
		c.Rate, c.SlotSize, c.Duration, c.Loop, c.Input = 2.5e6, 96<<20, time.Minute, true, "a b.mdf"
	})
	if d := cmp.Diff(want.Config, got); d != "" {
		t.Error(d)
	}
}

// Each setting of a file must come through kong as the same value that Parse gives.
func TestEverySettingSurvivesKong(t *testing.T) {
	odd := configWith(func(c *Config) {
		for _, f := range settingFields(c) {
			switch {
			case f.enum != nil:
				f.value.SetString(f.enum[0])
			case f.value.Kind() == reflect.String:
				f.value.SetString("x y")
			case f.value.Kind() == reflect.Bool:
				f.value.SetBool(true)
			case f.value.CanFloat():
				f.value.SetFloat(0.125)
			case f.value.CanUint():
				f.value.SetUint(17)
			case f.value.CanInt():
				f.value.SetInt(17)
			}
		}
		c.Output, c.Format, c.FragmentModel, c.Prepared = "x.mdf", "mdf", "", 0
		c.AsTaken, c.Trigger, c.DiskBacklog = false, "", 0 // beside a rate; of another format
		c.Transport = "local+quic-go"
		c.Debug.LargeEvery = 0 // of generated data
		c.PhaseEnd, c.Seats, c.RoI = "17ms", "", ""
		c.DecisionNode, c.DecisionTimeout, c.DecisionOutput = "n1", 17*time.Second, "buffer:x"
		c.PhaseSlack = 0 // where no barrier ends the phases
		c.Filter, c.Packing = "share:0.5,17ms", 1
		c.Groups, c.BusyGroup, c.Partitions = "0-7;8-14,16,15", "skip", "8-16;0-7"
		c.Streams, c.Sources = Counts(strings.Repeat("2,", 16)+"1"), 33
		c.Next = strings.Repeat("2, ", 16) + "1"
		c.Debug.SuspendBUs, c.Debug.SuspendFor = "3,1", 5
		c.Members, c.ReadoutLoss, c.BuilderLoss, c.Recovery = "", "at-least 2 of 17", "expendable", "3 in 10m"
		c.SegmentSize, c.SegmentTime = 17<<20, 17*time.Second
		c.Silence = 7 * time.Second
		c.Busy, c.BusyHigh = "", 18 // of live sources
		c.FragmentTimeout, c.FlushAfter, c.TolerateMissing = 17*time.Second, 17*time.Second, "0.125%"
		c.Debug.Damage = "epoch=0.125"
		c.Debug.PullWindow = 0 // of another discipline than the first
	})
	got, err := parse("--config", writeFile(t, string(odd.Effective())))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(odd.Config, got); d != "" {
		t.Error(d)
	}
}

func TestKongReportsTheFile(t *testing.T) {
	file := writeFile(t, "nodes: 4\nverfy: crc\n")
	_, err := parse("--config", file)
	var invalid *InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(),
		file+`:2: verfy: there is no such setting; the nearest one is "verify"`) {
		t.Errorf("error: %v", err)
	}
	if _, err := parse("--config", filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestKongValidates(t *testing.T) {
	for _, args := range [][]string{{"--loop"}, {"--rus=3"}, {"--packing=0"}, {"--phase-end=wall"}, {"--slot-size=many"}} {
		if _, err := parse(args...); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
}
