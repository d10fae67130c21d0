package config

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ringlet/velo/detectorfile"
	"ringlet/velo/frontend"
)

// TestExampleIsTheDefault: the example says what the detector is that needs no file.
func TestExampleIsTheDefault(t *testing.T) {
	d := detectorfile.New()
	if err := LoadDescription("../../examples/velo/detector.yaml", d); err != nil {
		t.Fatal(err)
	}
	if got, want := d.Detector().Config(), frontend.Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestLoadDescription(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.yaml")
	for text, want := range map[string]string{
		"collisions: {displaced: 1}":                 "",
		"collisions: {displaced: 2}":                 `d.yaml:1: collisions.displaced: 2 is not between`,
		"front-end:\n  noize: 2":                     `nearest one is "front-end.noise"`,
		"front-end: {threshold: 1.5}":                "not a whole number",
		"detector:\n  span: 0":                       "d.yaml:2: detector.span: 0 is not between",
		"detector:\n  stations: [3, 1]":              "d.yaml:2: detector.stations: 1 mm follows 3 mm",
		"detector: {phi: {zones: [{strips: 3000}]}}": "detector.phi.zones",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d := detectorfile.New()
		err := LoadDescription(path, d)
		var bad *InvalidError
		switch {
		case want == "" && (err != nil || d.Detector().Config().Collisions.Displaced != 1 ||
			d.Detector().Config().Collisions.Particles == 0):
			t.Errorf("%q: %v", text, err)
		case want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := LoadDescription(filepath.Join(t.TempDir(), "none"), detectorfile.New()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestFilterFile: the file of the filter's detector is read when a run is prepared. It must describe a detector that
// the filter can search, and the one that the data are of.
func TestFilterFile(t *testing.T) {
	fourteen := "detector: {stations: [0, 45, 90, 135, 180, 225, 270, 315, 360, 405, 450, 495, 540, 585]}"
	for _, tt := range []struct {
		text      string
		simulated bool
		boards    int
		want      string // part of the error; empty: it is in order
	}{
		{"", true, 100, ""},
		{"collisions: {displaced: 1}", true, 100, ""},
		{fourteen, false, 56, ""},
		{fourteen, true, 0, "filter: d.yaml describes another detector than the one that fragment-model velo simulates"},
		{"detector: {stations: [1, 2]}", false, 0, "filter: d.yaml: the vertex filter cannot search in this detector"},
		{"detector: {span: 0}", false, 0, "d.yaml:1: detector.span: 0 is not between"},
		{"detektor: {}", false, 0, "d.yaml:1: "},
	} {
		c := configWith(func(c *Config) {
			if c.Filter, c.Packing, c.Input = "vertex:d.yaml,20ms", 1, "x.mep"; tt.simulated {
				c.Input, c.FragmentModel = "", "velo"
			}
		})
		if err := c.Complete(); err != nil || c.FilterFile() != "d.yaml" {
			t.Fatalf("%q, %v", c.FilterFile(), err)
		}
		boards, err := c.CheckFilterFile(strings.NewReader(tt.text))
		var bad *InvalidError
		if err != nil && !errors.As(err, &bad) || (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
		if err == nil && boards != tt.boards {
			t.Errorf("%q: %d boards", tt.text, boards)
		}
	}
	c := configWith(func(c *Config) { c.Filter, c.Packing, c.FragmentModel = "vertex:d.yaml,20ms", 1, "velo" })
	c.SetFilterFile("/x/d.yaml", make([]byte, 32))
	if c.Filter != "vertex:/x/d.yaml,20ms,sha256="+strings.Repeat("00", 32) || c.FilterFile() != "/x/d.yaml" {
		t.Error(c.Filter)
	}
	c.Sources = 100
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckBoards(100); err != nil {
		t.Error(err)
	}
	if err := c.CheckBoards(104); err == nil || !strings.Contains(err.Error(), "has 104 boards, and the data have 100") {
		t.Error(err)
	}
}

// TestLoadFilterDescription: builder units read the file themselves.
func TestLoadFilterDescription(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.yaml")
	c := configWith(func(c *Config) { c.Filter, c.Packing, c.Input = "vertex:"+path, 1, "x.mep" })
	choice, ok := c.FilterChoice()
	if _, err := LoadFilterDescription(choice); !ok || !errors.Is(err, os.ErrNotExist) {
		t.Error(ok, err)
	}
	if err := os.WriteFile(path, []byte("front-end: {noise: 1.5}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := LoadFilterDescription(choice); err != nil || g.Sources() != 100 {
		t.Error(err)
	}
	sum := sha256.Sum256([]byte("front-end: {noise: 1.5}"))
	c.SetFilterFile(path, sum[:])
	choice, _ = c.FilterChoice()
	if _, err := LoadFilterDescription(choice); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("front-end: {noise: 1.6}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFilterDescription(choice); err == nil ||
		!strings.Contains(err.Error(), "is not the file that the run") {
		t.Errorf("a file of another host was taken: %v", err)
	}
	c.Filter = "share:0.5"
	choice, _ = c.FilterChoice()
	if g, err := LoadFilterDescription(choice); err != nil || g != nil {
		t.Error(g, err)
	}
}
