package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// coreFunctions are all that a shell may call of a core that decides by one step function: that, what makes its first
// input, questions about what it has returned, and what documents print. Types and constants count as words, not calls.
var coreFunctions = map[string][]string{
	"ecs/run": {"State.Step", "Find", "Phase.IsGoing", "Action.IsAwaited", "Phase.String", "Markdown"},
}

// TestShellsCallStep: a core exports no function but those, so its shell cannot ask it anything else.
func TestShellsCallStep(t *testing.T) {
	found := map[string][]string{}
	for _, file := range handWritten(t) {
		dir := path.Dir(file)
		if coreFunctions[dir] == nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				of := fn.Recv.List[0].Type
				if pointer, is := of.(*ast.StarExpr); is {
					of = pointer.X
				}
				name = of.(*ast.Ident).Name + "." + name
			}
			found[dir] = append(found[dir], name)
		}
	}
	for dir, want := range coreFunctions {
		slices.Sort(found[dir])
		slices.Sort(want)
		if !slices.Equal(found[dir], want) {
			t.Errorf("%s lets its shell call %v, and not %v", dir, found[dir], want)
		}
	}
}
