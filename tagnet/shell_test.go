package tagnet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestShellAsksNothing holds that the service has no way to its Core but Step, Ready and a short list: the Core has no
// other method or field that another package can name, and nobody here makes decisions with an Allocator of his own.
func TestShellAsksNothing(t *testing.T) {
	want := []string{"CyclesKept", "Ready", "Registers", "Step"}
	var got []string
	each(t, "core", func(n ast.Node) {
		switch d := n.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && d.Name.IsExported() && receiver(d) == "Core" {
				got = append(got, d.Name.Name)
			}
		case *ast.TypeSpec:
			if s, is := d.Type.(*ast.StructType); is && d.Name.Name == "Core" {
				for _, f := range s.Fields.List {
					if len(f.Names) == 0 {
						t.Error("the Core embeds a type, whose methods are its own")
					}
					for _, name := range f.Names {
						if name.IsExported() {
							t.Errorf("the Core's field %s can be reached", name)
						}
					}
				}
			}
		}
	})
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the Core has methods %v for the service, want %v", got, want)
	}
	each(t, ".", func(n ast.Node) {
		if s, is := n.(*ast.SelectorExpr); is && strings.Contains(s.Sel.Name, "Allocator") {
			t.Errorf("the service names %s", s.Sel.Name)
		}
	})
}

// receiver is the type that has a method.
func receiver(d *ast.FuncDecl) string {
	of := d.Recv.List[0].Type
	if p, is := of.(*ast.StarExpr); is {
		of = p.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// each visits what stands in the files of a folder, but for tests.
func each(t *testing.T, dir string, visit func(ast.Node)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(f, func(n ast.Node) bool { visit(n); return true })
	}
}
