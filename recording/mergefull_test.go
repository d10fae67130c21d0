package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/testkit/must"
)

// smallDisk mounts a file system with room for so many bytes.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting a small tmpfs needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("ringlet-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("SKIPPED: a small tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// The disk is full when the file is made. That is said before anything is written, everything stays,
// and when there is room the same command makes the file.
func TestMergeOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, 3<<20)
	r := newRig(t, disk, FormatMEP)
	r.scattered(rand.New(rand.NewPCG(5, 1)), 2, 400)
	r.verdict(1600, 1600)
	dir, dst := r.done(), filepath.Join(disk, "x.mep")
	fill := filepath.Join(disk, "others")
	filler := func(leave int64) {
		t.Helper()
		var st unix.Statfs_t
		must.OK(t, unix.Statfs(disk, &st))
		must.OK(t, os.WriteFile(fill, make([]byte, int64(st.Bavail)*st.Bsize-leave), 0o666))
	}
	filler(64 << 10)
	before := tree(t, dir)
	_, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: true})
	var space *spaceError
	if !errors.As(err, &space) || space.Need <= space.Free || space.Free > 64<<10 {
		t.Fatal(err)
	}
	t.Log(err)
	if after := tree(t, dir); after != before {
		t.Fatal("the segments have changed")
	}
	if remaining, err := filepath.Glob(dst + "*"); err != nil || len(remaining) > 0 {
		t.Fatal(remaining, err)
	}
	if v := verified(t, dir, VerifyOptions{}); !v.IsGood {
		t.Fatal(said(v))
	}
	remove(t, fill)
	if _, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: true}); err != nil {
		t.Fatal(err)
	}
	isMerged(t, dst, inEventOrder(t, FormatMEP, upTo(400)...))
}

// Others fill the disk while the file is made, on a file system that reserves no room.
func TestMergeWhileTheDiskFills(t *testing.T) {
	disk := smallDisk(t, 3<<20)
	out := must.MemoryDir(t)
	r := newRig(t, out, FormatMEP)
	r.scattered(rand.New(rand.NewPCG(6, 1)), 2, 400)
	r.verdict(1600, 1600)
	dir, dst := r.done(), filepath.Join(disk, "x.mep")
	before := tree(t, dir)
	_, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: true, cannotReserve: true,
		faultAfter: func(step string) error {
			if step != "room" {
				return nil
			}
			err := os.WriteFile(filepath.Join(disk, "others"), make([]byte, 4<<20), 0o666)
			if !errors.Is(err, unix.ENOSPC) {
				t.Errorf("the disk is not full: %v", err)
			}
			return nil
		}})
	var space *spaceError
	if !errors.As(err, &space) {
		t.Fatal(err)
	}
	if after := tree(t, dir); after != before {
		t.Fatal("the segments have changed")
	}
	if remaining, err := filepath.Glob(dst + "*"); err != nil || len(remaining) > 0 {
		t.Fatal(remaining, err)
	}
}

// TestNoRunOnAFullDisk holds that a full disk is said before a run begins, and that a run which cannot be recorded
// leaves no directory.
func TestNoRunOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, 1<<20)
	must.OK(t, Check(filepath.Join(disk, "out")))
	err := os.WriteFile(filepath.Join(disk, "others"), make([]byte, 2<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := Check(disk); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the check says %v", err)
	}
	about := Manifest{
		Run:     3,
		Key:     NewKey(),
		Format:  FormatMEP,
		Packing: 1,
	}
	if _, err := OpenRun(disk, about, false); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("opening says %v", err)
	}
	if _, err := os.Stat(RunDir(disk, 3)); !errors.Is(err, fs.ErrNotExist) {
		files, _ := os.ReadDir(RunDir(disk, 3))
		t.Errorf("the directory of a run that was never recorded: %v, with %v", err, files)
	}
}
