package recording

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestARunIsNeverSeenWithoutItsManifest looks while runs are being made: a process may be killed at any such moment.
func TestARunIsNeverSeenWithoutItsManifest(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			runs, err := Runs(dir)
			if err != nil {
				t.Error(err)
			}
			for _, run := range runs {
				if _, err := Load(run); err != nil && run != dir {
					t.Error(err)
					return
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for run := range uint32(100) {
		if _, err := OpenRun(dir, aboutRun(run+1, testKey), false); err != nil {
			t.Error(err)
		}
	}
	close(done)
	patiently.Wait(t, watching.Wait)
}

// What a process was making when it was killed is nobody's run, and goes when it is old.
func TestUnmadeRuns(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "run-000007"+makingInfix+"0a"), filepath.Join(dir, "run-000008"+makingInfix+"0b")
	for _, unmade := range []string{old, fresh} {
		must.OK(t, os.Mkdir(unmade, 0o777))
		must.OK(t, os.WriteFile(tempPath(unmade), []byte("{"), 0o666))
	}
	long := time.Now().Add(-2 * unfinishedAge)
	must.OK(t, os.Chtimes(old, long, long))
	if last, err := LastRun(dir); err != nil || last != 0 {
		t.Error("unmade runs count: ", last, err)
	}
	runDir := openTestRun(t, dir)
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the old one is still there: ", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error("one that may be being made is gone: ", err)
	}
	if runs, err := Runs(dir); err != nil || len(runs) != 1 || runs[0] != runDir {
		t.Errorf("runs are %v, %v", runs, err)
	}
}
