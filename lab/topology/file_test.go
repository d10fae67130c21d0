package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/node/config"
)

// The examples are what their names say.
func TestExamples(t *testing.T) {
	want := map[string][2]int{ // conflicts as given, dummies proposed
		"lhcb-18x10.yaml": {0, 0}, "lhcb-gaps.yaml": {1890, 13}, "conflict.yaml": {4, 1}, "torus-9x3.yaml": {0, 0},
		"torus-17x17.yaml": {0, 0},
	}
	files, err := filepath.Glob("../../lab/sweeps/topology/*.yaml")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		top, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		p, err := top.NewPlan(file, Options{MaxConflicts: 1, MatrixPhase: -1})
		if err != nil || p.ProposedOrder == nil {
			t.Errorf("%s: %v, proposed %v", file, err, p.ProposedOrder)
			continue
		}
		if got := [2]int{p.GivenOrder.Conflicts, p.ProposedOrder.Dummies}; got != want[filepath.Base(file)] {
			t.Errorf("%s: conflicts and dummies %v, want %v", file, got, want[filepath.Base(file)])
		}
	}
}

// An error names the line where the thing stands, in a file of several.
func TestLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	for text, want := range map[string]string{
		"fat-tree:\n  spines: 2\n  map:\n    - [a, b]\n    - [c, a]\n":                `:5: fat-tree.map[1][1]: the node "a" is there twice`,
		"fat-tree:\n  spines: 2\n  map:\n    - [a, b]\norder:\n  - a\n  - ~\n  - x\n": `:8: order[2]: there is no node "x"`,
		"torus:\n  rows: 2\n  colums: 2\n":                                            `:3: torus.colums: there is no such setting; the nearest one is "torus.columns"`,
		"torus:\n  rows: 2\n  columns: 2\n  map: [\n":                                 `:4: `,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file)
		var invalid *config.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), file+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := Load(file + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Large maps are planned in seconds, and what is too large to pad is said to have no order rather than tried.
func TestLarge(t *testing.T) {
	rows := strings.Repeat("1, ", 1022)
	top, err := parse("large", strings.NewReader("fat-tree: {leaves: 1024, spines: 1, ports: 1024, nodes: ["+rows+
		"1, 1024]}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, found := top.propose(); found {
		t.Error("an order is proposed where 1024 nodes share a link")
	}
}

// However many nodes are too many, that is one mistake.
func TestTooManyNodesIsSaidOnce(t *testing.T) {
	for _, text := range []string{
		"fat-tree: {leaves: 300, spines: 20, nodes: 20}", "fat-tree: {leaves: 1024, spines: 1, ports: 1024, nodes: 1024}",
		"torus: {rows: 128, columns: 128}",
		"fat-tree: {spines: 16, links: 64, map: [[]" + manyRows(6, 1000) + "]}",
	} {
		_, err := parse("many", strings.NewReader(text))
		var invalid *config.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 ||
			!strings.Contains(err.Error(), "has more than 4096 nodes") {
			t.Errorf("%.60s: %.300v", text, err)
		}
	}
}

// manyRows writes leaves with nodes of different names.
func manyRows(rows, each int) string {
	var b strings.Builder
	for r := range rows {
		b.WriteString(", [")
		for c := range each {
			fmt.Fprintf(&b, "a%d-%d, ", r, c)
		}
		b.WriteString("]")
	}
	return b.String()
}

// FuzzParse holds that no text panics, that what is refused is refused with problems, and that small topologies have
// plans.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("../../lab/sweeps/topology/*.yaml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("torus: {rows: 2, columns: 3, map: [[a, b, ~], [c]]}\nrus: [a, ~, b]\nbus: [c]\n"))
	f.Add([]byte("fat-tree: {leaves: 2, spines: 3, links: 2, parallel: fixed, nodes: [2, 4], ports: 5}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		top, err := parse("fuzz", strings.NewReader(string(text)))
		if err != nil {
			var invalid *config.InvalidError
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("the error is no list of problems: %v", err)
			}
			return
		}
		rows, columns := top.net.grid()
		if len(top.Nodes) > 40 || top.GivenOrder.places() > 60 || rows*columns > 400 {
			return
		}
		p, err := top.NewPlan("fuzz", Options{MaxConflicts: 2, MatrixPhase: 0})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.WriteText(new(strings.Builder)); err != nil {
			t.Fatal(err)
		}
	})
}
