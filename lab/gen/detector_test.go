package gen

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ringlet/builderunit/recording"
	"ringlet/event"
	"ringlet/event/velo"
	"ringlet/node/config"
	"ringlet/readoutunit/source/frontend"
)

// TestExampleIsTheDefault: the example says what the detector is that needs no file.
func TestExampleIsTheDefault(t *testing.T) {
	d, err := LoadDetector("../../examples/velo/detector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Config(), frontend.Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestLoadDetector(t *testing.T) {
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
		d, err := LoadDetector(path)
		var bad *config.InvalidError
		switch {
		case want == "" && (err != nil || d.Config().Collisions.Displaced != 1 || d.Config().Collisions.Particles == 0):
			t.Errorf("%q: %v", text, err)
		case want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := LoadDetector(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestGenerateDetector: the boards of every event stand in the file, and what happened beside it, for the same events.
func TestGenerateDetector(t *testing.T) {
	d, err := LoadDetector(builtIn)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Path: filepath.Join(t.TempDir(), "a.mep"), Format: recording.MEP, Events: 23, Packing: 10, Detector: d,
		Seed: 6}
	if r, err := Generate(t.Context(), c); err != nil || r.Events != 23 {
		t.Fatal(err, r)
	}
	data, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	boards := 0
	for len(data) > 0 {
		mep, err := event.ParseMEP(data)
		if err != nil || mep.N() != 100 {
			t.Fatal(err)
		}
		for m, err := range mep.MFPs() {
			if err != nil {
				t.Fatal(err)
			}
			for f := m.Cursor(); f.Next(); boards++ {
				b, err := velo.ParseBoard(f.Data())
				if err != nil || b.Event() != uint16(f.Event()) || b.Number() != int(m.Source()) {
					t.Fatal(err)
				}
			}
		}
		data = data[len(mep.Bytes()):]
	}
	if boards != 2300 {
		t.Errorf("%d boards", boards)
	}
	f, err := os.Open(TruthPath(c.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ev := uint64(0)
	for lines := bufio.NewScanner(f); lines.Scan(); ev++ {
		var truth frontend.Truth
		if err := json.Unmarshal(lines.Bytes(), &truth); err != nil || truth.Event != ev || len(truth.Tracks) == 0 {
			t.Fatal(err, truth.Event)
		}
	}
	if ev != 23 {
		t.Errorf("the truth of %d events", ev)
	}

	// What stands there stays, truth and data.
	c.Path = filepath.Join(t.TempDir(), "b.mep")
	if err := os.WriteFile(TruthPath(c.Path), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Generate(t.Context(), c); err == nil ||
		!strings.Contains(err.Error(), "b.mep.truth.jsonl is there already") {
		t.Error(err)
	}
	if files, err := os.ReadDir(filepath.Dir(c.Path)); err != nil || len(files) != 1 {
		t.Error(err, files)
	}
	c.Overwrite = true
	if _, err := Generate(t.Context(), c); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(filepath.Dir(c.Path)); err != nil || len(files) != 2 {
		t.Error(err, files)
	}
}
