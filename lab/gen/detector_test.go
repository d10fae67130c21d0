package gen

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/recording"
	"ringlet/velo"
	"ringlet/velo/content"
	"ringlet/velo/frontend"
)

// TestGenerateDetector: the boards of every event stand in the file, and what happened beside it, for the same events.
func TestGenerateDetector(t *testing.T) {
	d, err := frontend.New(frontend.Default())
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Path: filepath.Join(t.TempDir(), "a.mep"), Format: recording.FormatMEP, Events: 23, Packing: 10,
		Content: content.KindOf(d, false, 2), Seed: 6}
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
		if err != nil || mep.NumMFPs() != 100 {
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
