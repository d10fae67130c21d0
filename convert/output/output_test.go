package output

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ringlet/convert/input"
)

// A row costs no allocation, but for the buffers that grow now and then.
func TestRowsAreNotAllocated(t *testing.T) {
	for i := range Kinds {
		k := &Kinds[i]
		if k.Name == "root" {
			continue // groot allocates for each branch
		}
		f, err := k.Open(filepath.Join(t.TempDir(), "x"), "t", "")
		if err != nil {
			t.Fatal(err)
		}
		r := input.Row{Data: make([]byte, 100)}
		write := func() {
			if err := f.Write(&r); err != nil {
				t.Fatal(err)
			}
		}
		for range 5000 {
			write()
		}
		if n := testing.AllocsPerRun(1000, write); n >= 1 {
			t.Errorf("%s: %v allocations a row", k.Name, n)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := KindOf("csv"); err == nil {
		t.Error("csv is a kind")
	}
}

// TestFullDisk writes to a device that has no room: whatever library writes, the cause stands first, and what to do.
// The name is that of a link: groot removes a file that it could not begin.
func TestFullDisk(t *testing.T) {
	for i := range Kinds {
		k := &Kinds[i]
		link := filepath.Join(t.TempDir(), "x")
		if err := os.Symlink("/dev/full", link); err != nil {
			t.Fatal(err)
		}
		f, err := k.Open(link, "t", "")
		for n := 0; err == nil && n < 100_000; n++ {
			err = f.Write(&input.Row{Data: make([]byte, 1000)})
		}
		if f != nil {
			f.Abandon()
		}
		if !errors.Is(err, syscall.ENOSPC) ||
			!strings.HasPrefix(err.Error(), "no space left on device: "+link+" could not be written: make room there") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}
