package level1_test

import (
	"context"
	"testing"

	"ringlet/sim/level1"
)

// TestFigures: every point of every figure holds.
func TestFigures(t *testing.T) {
	for _, f := range level1.Figures {
		t.Run(f.ID, func(t *testing.T) {
			points, err := f.Run(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range points {
				t.Logf("%-45s %8.4g, document %8.4g %-7s (%v)", p.What, p.Model, p.Document, p.Unit, p.Rule)
				if !p.Holds() {
					t.Errorf("%s: %.4g %s, the document says %.4g (%v)", p.What, p.Model, p.Unit, p.Document, p.Rule)
				}
			}
		})
	}
}
