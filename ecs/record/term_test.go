package record

import (
	"path/filepath"
	"testing"
)

// TestTermsGrow opens the file again and again: a term is larger than each before it, whatever the clock says
// meanwhile.
func TestTermsGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	for i, step := range []struct{ clock, want uint64 }{{100, 100}, {100, 101}, {50, 102}, {0, 103}, {1000, 1000}} {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.NextTerm(step.clock); err != nil || got != step.want {
			t.Errorf("start %d: term %d, %v; want %d", i, got, err, step.want)
		}
		if i == 3 { // what is no term is none, and the next control begins all the same
			if err := s.Remember(keyTerm, []byte("seven")); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
