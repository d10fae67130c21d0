package output

import (
	"path/filepath"
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
		f, err := k.Open(filepath.Join(t.TempDir(), "x"), "t")
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
