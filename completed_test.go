package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// configPackage has the configuration.
const configPackage = "ringlet/node/config"

// TestConfigurationsAreCompletedInOnePlace: one function has a configuration completed, and it alone, with the one that
// reads such a configuration back, makes a value that says so. Whoever is given that completes nothing.
func TestConfigurationsAreCompletedInOnePlace(t *testing.T) {
	p := &product{set: token.NewFileSet(), files: map[string][]*ast.File{}, checked: map[string]*types.Package{}}
	p.uses = map[*ast.Ident]types.Object{}
	p.types = map[ast.Expr]types.TypeAndValue{}
	for _, file := range handWritten(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "convert/") || strings.HasPrefix(file, "checks/") {
			continue
		}
		f, err := parser.ParseFile(p.set, file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := "ringlet/" + path.Dir(file)
		p.files[dir] = append(p.files[dir], f)
	}
	for dir := range p.files {
		if p.namesConfig(dir) {
			_, _ = p.Import(dir)
		}
	}
	var calls, made []string
	for dir, parsed := range p.files {
		for _, f := range parsed {
			for _, d := range f.Decls {
				by := strings.TrimPrefix(dir, "ringlet/")
				if d, is := d.(*ast.FuncDecl); is {
					name, _ := receiverAndName(d)
					by += "." + name
				}
				ast.Inspect(d, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.SelectorExpr:
						if p.completes(n) {
							calls = append(calls, by)
						}
					case *ast.CompositeLit:
						if named, is := p.types[n].Type.(*types.Named); is && len(n.Elts) > 0 && isOfConfig(named.Obj(), "Completed") {
							made = append(made, by)
						}
					}
					return true
				})
			}
		}
	}
	if len(calls) != 1 || calls[0] != "node/config.Config.Compose" {
		t.Errorf("configurations are completed by %v: Compose alone does", calls)
	}
	for _, by := range made {
		if !strings.HasPrefix(by, "node/config.") {
			t.Errorf("%s makes a completed configuration: take the one that is given, or Compose", by)
		}
	}
	if len(made) == 0 {
		t.Error("nobody makes a completed configuration")
	}
}

// completes tells whether a selector is the method that completes a configuration.
func (p *product) completes(s *ast.SelectorExpr) bool {
	method, is := p.uses[s.Sel].(*types.Func)
	if !is || !isOfConfig(method, "Complete") {
		return false
	}
	of := method.Signature().Recv().Type()
	if pointer, is := of.(*types.Pointer); is {
		of = pointer.Elem()
	}
	named, is := of.(*types.Named)
	return is && isOfConfig(named.Obj(), "Config")
}

func isOfConfig(o types.Object, name string) bool {
	return o.Name() == name && o.Pkg() != nil && o.Pkg().Path() == configPackage
}

// product is all packages of the module that are written by hand, with what their names stand for. What they import of
// others is not read.
type product struct {
	set     *token.FileSet
	files   map[string][]*ast.File
	checked map[string]*types.Package
	uses    map[*ast.Ident]types.Object
	types   map[ast.Expr]types.TypeAndValue
}

// Import implements types.Importer.
func (p *product) Import(of string) (*types.Package, error) {
	if p.files[of] == nil {
		return emptyImporter{}.Import(of)
	}
	if p.checked[of] == nil {
		// What does not name the configuration is only declared: it cannot complete one.
		config := types.Config{Error: func(error) {}, Importer: p, IgnoreFuncBodies: !p.namesConfig(of)}
		info := &types.Info{}
		if !config.IgnoreFuncBodies {
			info.Uses, info.Types = p.uses, p.types
		}
		p.checked[of], _ = config.Check(of, p.set, p.files[of], info)
	}
	return p.checked[of], nil
}

// namesConfig tells whether a package is the configuration's, or imports it.
func (p *product) namesConfig(of string) bool {
	return of == configPackage || slices.ContainsFunc(p.files[of], func(f *ast.File) bool {
		return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == strconv.Quote(configPackage)
		})
	})
}
