package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// shell is a package whose decisions one core makes by steps: input in, actions out. The rest of the package is its
// shell, which carries the actions out.
type shell struct {
	dir    string
	core   []string // files of the core
	calls  []string // functions and methods of the core that the shell calls
	values []string // types of the core that hold what is said, and decide nothing: the shell has their fields
}

// shells is the table.
var shells = []shell{
	{
		dir: "readoutunit",
		core: []string{"bursts.go", "core.go", "disciplines.go", "free.go", "rejections.go", "rounds.go", "shift.go",
			"tagring.go", "timeline.go", "transfers.go"},
		calls:  []string{"newCore", "Step", "Stats", "Timeline", "lowestNeeded", "untilPhase"},
		values: []string{"Action", "CoreConfig", "Input"},
	},
}

// TestShellsCallOnlyStep: a shell that asks its core what it might do decides again, and by a state that may have
// changed since. So it calls Step and a few names more, and no field of the core is its own.
func TestShellsCallOnlyStep(t *testing.T) {
	for _, s := range shells {
		t.Run(s.dir, func(t *testing.T) {
			p := checkTypes(t, s.dir)
			called := map[string]bool{}
			for _, at := range sortedUses(p) {
				object := p.uses[at]
				file, by := p.file(object.Pos()), p.file(at)
				if !slices.Contains(s.core, file) || slices.Contains(s.core, by) {
					continue
				}
				name := object.Name()
				switch object := object.(type) {
				case *types.Func:
					if called[name] = true; !slices.Contains(s.calls, name) {
						t.Errorf("%v: the shell calls %s of its core: let a step say what is to be done", p.set.Position(at), name)
					}
				case *types.Var:
					if owner := p.fields[object]; owner != "" && !slices.Contains(s.values, owner) {
						t.Errorf("%v: the shell looks at %s of %s, which is its core's", p.set.Position(at), name, owner)
					}
				}
			}
			for _, name := range s.calls {
				if !called[name] {
					t.Errorf("the shell does not call %s: take it from the list", name)
				}
			}
		})
	}
}

// typedPackage is what the files of a package name, as far as they declare it themselves.
type typedPackage struct {
	set    *token.FileSet
	uses   map[token.Pos]types.Object
	fields map[*types.Var]string // the type that a field stands in
}

func (p *typedPackage) file(at token.Pos) string { return path.Base(p.set.Position(at).Filename) }

// sortedUses are the places of all uses, in order.
func sortedUses(p *typedPackage) []token.Pos {
	var all []token.Pos
	for at := range p.uses {
		all = append(all, at)
	}
	slices.Sort(all)
	return all
}

// checkTypes finds what the names of a package stand for. What it imports is not read, and so names of no package.
func checkTypes(t *testing.T, dir string) *typedPackage {
	t.Helper()
	p := &typedPackage{
		set:    token.NewFileSet(),
		uses:   map[token.Pos]types.Object{},
		fields: map[*types.Var]string{},
	}
	var parsed []*ast.File
	for _, file := range files(t, ".go") {
		if path.Dir(file) != dir || strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(p.set, file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}, Importer: emptyImporter{}}
	pkg, _ := config.Check("ringlet/"+dir, p.set, parsed, &info) // its errors are of what is imported
	for name, object := range info.Uses {
		if object.Pos().IsValid() {
			p.uses[name.Pos()] = object
		}
	}
	for _, name := range pkg.Scope().Names() {
		of, is := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		for i := 0; is && i < of.NumFields(); i++ {
			p.fields[of.Field(i)] = name
		}
	}
	return p
}

// emptyImporter gives packages in which there is nothing.
type emptyImporter struct{}

// Import implements types.Importer.
func (emptyImporter) Import(of string) (*types.Package, error) {
	pkg := types.NewPackage(of, path.Base(of))
	pkg.MarkComplete()
	return pkg, nil
}
