package recording

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/testkit/must"
)

// TestAFullDiskTakesTheVerdict holds that a manifest takes what is known of a run when a disk has room for nothing
// else, several times, and gives the room back with the verdict.
func TestAFullDiskTakesTheVerdict(t *testing.T) {
	disk := smallDisk(t, 2<<20)
	runDir := openTestRun(t, disk)
	fill(t, filepath.Join(disk, "others"))
	if err := replaceFile(filepath.Join(runDir, "x"), make([]byte, 5000)); !isDiskFull(err) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for i := range 6 {
		must.OK(t, UpdateManifest(runDir, func(m *Manifest) error {
			m.Builder(i).Host = strings.Repeat("h", 4000)
			return nil
		}))
		fill(t, filepath.Join(disk, "more"))
	}
	must.OK(t, UpdateManifest(runDir, func(m *Manifest) error {
		m.Verdict = &Verdict{Verdict: "INCOMPLETE", Why: strings.Repeat("y", 50_000)}
		return nil
	}))
	m, err := Load(runDir)
	must.OK(t, err)
	if m.Verdict == nil || m.Verdict.Verdict != "INCOMPLETE" || len(m.Builders) != 6 {
		t.Errorf("%+v", m.Verdict)
	}
	fill(t, filepath.Join(disk, "again"))
	// read once more
	must.OK(t, UpdateManifest(runDir, func(m *Manifest) error { m.Verdict.Verdict = "DEGRADED"; return nil }))
	must.OK(t, errors.Join(os.Remove(filepath.Join(disk, "others")), os.Remove(filepath.Join(disk, "more"))))
	must.OK(t, UpdateManifest(runDir, func(*Manifest) error { return nil }))
	if pathExists(reservePath(runDir)) || pathExists(tempPath(runDir)) {
		t.Error("room is kept for a run that has its verdict, on a disk that has room")
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must.OK(t, err)
	defer func() { must.OK(t, f.Close()) }()
	for range 4 << 10 { // of KiB, twice what the disk has
		if _, err := f.Write(make([]byte, 1<<10)); err != nil {
			if !isDiskFull(err) {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the disk does not become full")
}

// TestReserveGrowsWithTheManifest holds that there is always room for a verdict beyond what the manifest has.
func TestReserveGrowsWithTheManifest(t *testing.T) {
	runDir := openTestRun(t, t.TempDir())
	must.OK(t, UpdateManifest(runDir, func(m *Manifest) error {
		m.Configuration = strings.Repeat("c", 2*manifestReserve)
		return nil
	}))
	var st unix.Stat_t
	must.OK(t, unix.Stat(reservePath(runDir), &st))
	if st.Size < 3*manifestReserve || st.Blocks*512 < st.Size {
		t.Errorf("%d bytes of room, %d reserved", st.Size, st.Blocks*512)
	}
	must.OK(t, os.Remove(reservePath(runDir))) // somebody has: it is not missed
	must.OK(t, UpdateManifest(runDir, func(m *Manifest) error { m.Packing = 1; return nil }))
}
