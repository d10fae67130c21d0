package main

import (
	"os"
	"path/filepath"
	"testing"

	"ringlet/testkit/must"
)

// Events are drawn in the detector of the run's filter, and in the default one where the filter has no file. A file
// that is gone is told.
func TestDrawsTheDetectorOfTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	must.OK(t, os.WriteFile(path, []byte("detector: {stations: [0, 50, 100, 150, 200]}\n"), 0o600))
	text := "filter: vertex:" + path + "\n"
	d := &drawing{now: func() (uint32, string) { return 1, text }}
	g, err := d.geometry()
	must.OK(t, err)
	if g == nil || g.Boards() != 20 {
		t.Errorf("%v", g)
	}
	text = "filter: vertex\n"
	if g, err = d.geometry(); g != nil || err != nil {
		t.Error(g, err)
	}
	text = "filter: vertex:" + path + ".gone\n"
	if _, err = d.geometry(); err == nil {
		t.Error("a file that is not there is known")
	}
}
