package record

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestNumbersOutliveRecords: whoever removes the records does not get a number a second time.
func TestNumbersOutliveRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	for want := uint32(1); want < 4; want++ {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.NextRun(nil)
		if err != nil || r.GetNumber() != want {
			t.Errorf("run %d, %v; want %d", r.GetNumber(), err, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path+lastRunSuffix, []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path); err == nil {
		t.Error("a spoiled number was passed over", s.Close())
	}
}

// Behind the highest number of all there is none: the records are not opened, and the next run does not begin anew.
func TestNoNumberIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(path+lastRunSuffix, []byte("4294967295\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	var damaged *DamagedError
	if !errors.As(err, &damaged) {
		t.Errorf("%v", err)
	}
}
