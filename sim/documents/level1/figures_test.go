package level1

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
	"ringlet/testkit/must"
)

// dir has the figures: F42.yaml and so on.
const dir = "../figures"

// TestFigures: the models of this package give what the document says, with the study's own parameters.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("a model has one goroutine")
	}
	for _, id := range []string{
		"F42", "F45", "F46", "F47", "F48", "F49", "F50", "F51", "F52", "F54", "F55", "F56", "F57", "F61", "F62", "F63", "F66",
		"F67", "F68", "F69",
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s, err := study.Parse(os.DirFS(dir), id+".yaml")
			must.OK(t, err)
			out, err := s.Run(t.Context(), Models(), study.Env{})
			must.OK(t, err)
			out.Cases = nil
			for _, j := range s.Judge(out) {
				if j.Verdict != study.VerdictHolds {
					t.Errorf("%s is %s, the document says %s (%s)", j.Name, j.Simulated, j.Expected, j.From)
				}
			}
		})
	}
}

// TestNetwork: the parameters of the figures are those of sci.Dolphin, with which the tests of rings are made.
func TestNetwork(t *testing.T) {
	var got sci.Config
	look := study.Model{Name: "sci-longest-path"}
	look.Run = func(_ context.Context, p *study.Params, _ study.Env) (study.Outcome, error) {
		got = ReadNetwork(p)
		p.Int("columns", 0, 100)
		p.Int("rows", 0, 100)
		return study.Outcome{}, p.Err()
	}
	s, err := study.Parse(os.DirFS(dir), "F46.yaml")
	must.OK(t, err)
	_, err = s.Run(t.Context(), []study.Model{look}, study.Env{})
	must.OK(t, err)
	if diff := cmp.Diff(sci.Dolphin(), got); diff != "" {
		t.Errorf("common-sci.yaml (+) is not sci.Dolphin (-):\n%s", diff)
	}
}

// TestInterrupt: a model that is interrupted says so.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := study.Parse(os.DirFS(dir), "F61.yaml")
	must.OK(t, err)
	if _, err := s.Run(ctx, Models(), study.Env{}); err == nil {
		t.Error("an interrupted model gave results")
	}
}

// TestEachNodeHasItsTurn: successive events go to other rows and columns, and each node has one before any has another,
// whatever the torus.
func TestEachNodeHasItsTurn(t *testing.T) {
	for columns := 4; columns <= 22; columns++ {
		for rows := 2; rows <= 20; rows++ {
			f := farm{columns: columns, rows: rows, secondColumn: columns / 2}
			nodes := (columns - 2) * rows
			seen := map[int]int{}
			for n := range 3 * nodes {
				if n%nodes == 0 && len(seen) > 0 {
					clear(seen)
				}
				at := f.target(int64(n))
				if seen[at]++; seen[at] > 1 {
					t.Fatalf("%d × %d: event %d is the second for node %d of this turn", columns-2, rows, n, at)
				}
				if x := at % columns; x == 0 || x == f.secondColumn || at >= columns*rows {
					t.Fatalf("%d × %d: event %d goes to %d, which is no computing node", columns-2, rows, n, at)
				}
			}
		}
	}
}
