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
		core: []string{"core.go", "disciplines.go", "free.go", "passover.go", "push.go", "rejections.go", "shift.go",
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

// packageCores are cores that are packages of their own, and all that their shells may call of them: the step, what
// makes its first input, questions about what it has returned, and what documents print. With a type it is that type's
// methods, since what else the package exports is words. Types and constants count as words, not calls.
var packageCores = map[string]struct {
	of    string
	calls []string
}{
	"ecs/run": {calls: []string{"Action.IsAwaited", "Find", "Markdown", "Phase.IsGoing", "Phase.IsPaused", "Phase.String",
		"State.Step"}},
	"tagnet/core": {of: "Core",
		calls: []string{"Core.CyclesKept", "Core.Ready", "Core.Registers", "Core.Step"}},
	// What is asked of a link, what its carrier brings and takes, time, and questions: is anything due, to be sent or
	// told, when, and since when is all silent.
	"transport/link": {of: "Core",
		calls: []string{"Core.Abort", "Core.Commit", "Core.Deadline", "Core.EndBatch", "Core.Events", "Core.Fence",
			"Core.HasEvents", "Core.Next", "Core.NextAck", "Core.NextDue", "Core.NextGather", "Core.Receive",
			"Core.RelocateWrite", "Core.Reserve", "Core.Signal", "Core.SilentFor", "Core.Stats", "Core.Tick", "Core.Write",
			"Core.WriteMany"}},
}

// TestPackageCoresAreOnlyStepped: such a core exports no function and no field but those, so its shell cannot ask it
// anything else.
func TestPackageCoresAreOnlyStepped(t *testing.T) {
	for dir, want := range packageCores {
		var found []string
		for _, f := range parsePackage(t, token.NewFileSet(), dir) {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if name, of := receiverAndName(d); d.Name.IsExported() && (want.of == "" || of == want.of) {
						found = append(found, name)
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						checkFieldsAreHidden(t, spec, want.of)
					}
				}
			}
		}
		if slices.Sort(found); !slices.Equal(found, want.calls) {
			t.Errorf("%s lets its shell call %v, and not %v", dir, found, want.calls)
		}
	}
	for _, f := range parsePackage(t, token.NewFileSet(), "tagnet") {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is && strings.Contains(s.Sel.Name, "Allocator") {
				t.Errorf("the scheduler's service names %s: its core alone decides", s.Sel.Name)
			}
			return true
		})
	}
}

// checkFieldsAreHidden holds that a shell reaches no field of the core.
func checkFieldsAreHidden(t *testing.T, spec ast.Spec, core string) {
	of, is := spec.(*ast.TypeSpec)
	if !is || core == "" || of.Name.Name != core {
		return
	}
	for _, f := range of.Type.(*ast.StructType).Fields.List {
		if len(f.Names) == 0 {
			t.Errorf("%s embeds a type, whose methods are its own", core)
		}
		for _, name := range f.Names {
			if name.IsExported() {
				t.Errorf("the field %s of %s can be reached", name, core)
			}
		}
	}
}

// receiverAndName is a function by its name, behind that of the type whose method it is.
func receiverAndName(d *ast.FuncDecl) (name, of string) {
	if d.Recv == nil {
		return d.Name.Name, ""
	}
	at := d.Recv.List[0].Type
	if pointer, is := at.(*ast.StarExpr); is {
		at = pointer.X
	}
	if generic, is := at.(*ast.IndexExpr); is {
		at = generic.X
	}
	if id, is := at.(*ast.Ident); is {
		of = id.Name
	}
	return of + "." + d.Name.Name, of
}

// maxMethods is how many methods a type has at most: one with more does several things.
const maxMethods = 40

// manyMethods are the types that have more, with as many as they may have until they are taken apart. No number here is
// raised.
var manyMethods = map[string]int{}

func TestNoTypeHasTooManyMethods(t *testing.T) {
	methods := map[string]int{}
	for _, file := range handWritten(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if d, is := d.(*ast.FuncDecl); is && d.Recv != nil {
				_, of := receiverAndName(d)
				methods[path.Dir(file)+"."+of]++
			}
		}
	}
	for of, n := range methods {
		if most := max(maxMethods, manyMethods[of]); n > most {
			t.Errorf("%s has %d methods, more than %d: let parts of it be types with names of their own", of, n, most)
		}
	}
	for of, most := range manyMethods {
		if n := methods[of]; n < most {
			t.Errorf("%s has %d methods by now: write that in place of %d, or take it from the list", of, n, most)
		}
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
	parsed := parsePackage(t, p.set, dir)
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

// parsePackage reads the files of a package, but for tests.
func parsePackage(t *testing.T, set *token.FileSet, dir string) (parsed []*ast.File) {
	t.Helper()
	for _, file := range files(t, ".go") {
		if path.Dir(file) != dir || strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	return parsed
}

// emptyImporter gives packages in which there is nothing.
type emptyImporter struct{}

// Import implements types.Importer.
func (emptyImporter) Import(of string) (*types.Package, error) {
	pkg := types.NewPackage(of, path.Base(of))
	pkg.MarkComplete()
	return pkg, nil
}
