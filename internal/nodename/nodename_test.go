package nodename

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNamesAreOfOneProcess: a name is that of one node of one process, and no other text stands for the same node.
func TestNamesAreOfOneProcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		process := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?`).Draw(t, "process")
		place := rapid.IntRange(0, MaxNodes-1).Draw(t, "place")
		name := Join(process, place)
		if p, i := Split(name); p != process || i != place {
			t.Fatalf("%s is node %d of %s", name, i, p)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9.+ -]{0,12}`).Draw(t, "name")
		if p, i := Split(name); Join(p, i) != name {
			t.Fatalf("%q is taken for node %d of %q, which is %q", name, i, p, Join(p, i))
		}
	})
}

func TestNamesOfOtherForms(t *testing.T) {
	for name, process := range map[string]string{
		"n0": "n0", "n0.1": "n0", "n0.15": "n0", "n0.16": "n0.16", "n0.0": "n0.0", "n0.01": "n0.01", "n0.+1": "n0.+1",
		"n0.": "n0.", "n0.x": "n0.x", "n0-1": "n0-1", "node-1.3": "node-1", "n0.1.2": "n0.1", "": "",
	} {
		if got := ProcessOf(name); got != process {
			t.Errorf("%q is of the process %q, want %q", name, got, process)
		}
	}
}

func TestCountPerProcess(t *testing.T) {
	got := CountPerProcess([]string{"n0", "n1", "n1.2", "n0.1", "n2"})
	if len(got) != 3 || got["n0"] != 2 || got["n1"] != 3 || got["n2"] != 1 {
		t.Error(got)
	}
}
