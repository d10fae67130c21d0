package conversion

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestEndingsThatAreNoKindAreRefused: x.csv is no directory of Parquet that somebody wanted.
func TestEndingsThatAreNoKindAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"x.csv":     "end it with .parquet",
		"x.PARQUET": "end it with .parquet",
	} {
		o := Options{Output: dir + "/" + name}
		if _, _, err := o.kind(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, single := range map[string]bool{"x": false, "x.csv/": false, "x.parquet/": false,
		"run.17/": false, "x.root": true} {
		o := Options{Output: dir + "/" + name}
		if _, is, err := o.kind(); err != nil || is != single {
			t.Errorf("%s: %v, %v", name, is, err)
		}
	}
	there := Options{Output: filepath.Clean(dir)}
	if _, single, err := there.kind(); err != nil || single {
		t.Errorf("a directory that is there: %v, %v", single, err)
	}
	asked := Options{Output: filepath.Join(dir, "x.csv"), To: "parquet"}
	if _, single, err := asked.kind(); err != nil || single {
		t.Errorf("a directory whose kind is asked for: %v, %v", single, err)
	}
}
