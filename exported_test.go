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

// foreignMethods are methods that interfaces of other modules ask for: gRPC, Prometheus, memberlist, quic-go, encoders,
// groot.
var foreignMethods = strings.Fields(`ClientHandshake ConnectionIDLen Describe DialAddressTimeout GenerateConnectionID
	Elements GetBroadcasts Less LocalState MarshalJSON MarshalText
	MergeRemoteState NodeMeta NotifyAlive NotifyConflict NotifyJoin NotifyLeave NotifyMerge NotifyMsg NotifyUpdate
	MarshalYAML PacketCh ReadBatch SendHeader StreamCh UnmarshalYAML WriteMsgUDP`)

// names are the names of a repository: a package's as "folder Name", a method's as "folder .Name".
type names struct {
	declared    map[string]token.Position
	used        map[string]bool     // by another package, or in a signature
	groups      [][]string          // constants that stand together, with their type
	selected    map[string][]string // ".Name", by the packages that have such a selector
	inInterface map[string]bool     // ".Name" that an interface has
}

// TestExportedNamesHaveACaller: what no other package names begins with a small letter. Whoever takes the last caller
// away sees so what was kept for it. A method counts as named where an interface has its name, or any selector of
// another package; a type also in what another exported name is made of; a constant with its type and its group. What
// is below clients is for programs of others.
func TestExportedNamesHaveACaller(t *testing.T) {
	n := names{
		declared:    map[string]token.Position{},
		used:        map[string]bool{},
		inInterface: map[string]bool{},
		selected:    map[string][]string{},
	}
	for _, name := range foreignMethods {
		n.inInterface["."+name] = true
	}
	for _, file := range files(t, ".go") {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, read(t, file), parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		n.uses(file, f)
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "clients/") && !ast.IsGenerated(f) &&
			f.Name.Name != "main" {
			n.declares(path.Dir(file), f, set)
		}
	}
	for _, group := range n.groups {
		used := slices.ContainsFunc(group, func(name string) bool { return n.used[name] })
		for _, name := range group {
			n.used[name] = n.used[name] || used
		}
	}
	for key, at := range n.declared {
		dir, name, _ := strings.Cut(key, " ")
		elsewhere := slices.ContainsFunc(n.selected[name], func(by string) bool { return by != dir })
		if !n.used[key] && !n.inInterface[name] && !elsewhere {
			t.Errorf("%v: no other package names %s", at, strings.TrimPrefix(name, "."))
		}
	}
}

// uses notes what a file names of other packages. The tests of a package are no other one, wherever they stand: what
// they alone need is in its export_test.go.
func (n *names) uses(file string, f *ast.File) {
	imported := map[string]string{}
	for _, i := range f.Imports {
		if dir, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "ringlet/"); ours {
			local := path.Base(dir)
			if i.Name != nil {
				local = i.Name.Name
			}
			imported[local] = dir
		}
	}
	by := path.Dir(file)
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.SelectorExpr:
			if of, is := x.X.(*ast.Ident); is && imported[of.Name] != "" && imported[of.Name] != by {
				n.used[imported[of.Name]+" "+x.Sel.Name] = true
			}
			n.selected["."+x.Sel.Name] = append(n.selected["."+x.Sel.Name], by)
		case *ast.InterfaceType:
			for _, m := range x.Methods.List {
				for _, name := range m.Names {
					n.inInterface["."+name.Name] = true
				}
			}
		}
		return true
	})
}

// declares notes the exported names of a file, and the types that stand in what they are made of.
func (n *names) declares(dir string, f *ast.File, set *token.FileSet) {
	var declaredHere []*ast.Ident
	add := func(name *ast.Ident, prefix string) string {
		if key := dir + " " + prefix + name.Name; name.IsExported() {
			n.declared[key], declaredHere = set.Position(name.Pos()), append(declaredHere, name)
			return key
		}
		return ""
	}
	madeOf := func(node ast.Node) {
		ast.Inspect(node, func(x ast.Node) bool {
			if id, is := x.(*ast.Ident); is && !slices.Contains(declaredHere, id) {
				n.used[dir+" "+id.Name] = true
			}
			return true
		})
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			prefix := ""
			if d.Recv != nil {
				prefix = "."
			}
			if add(d.Name, prefix) != "" {
				madeOf(d.Type)
			}
		case *ast.GenDecl:
			var group []string
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if add(s.Name, "") != "" {
						madeOf(s.Type)
					}
				case *ast.ValueSpec:
					if of, is := s.Type.(*ast.Ident); is && d.Tok == token.CONST {
						group = append(group, dir+" "+of.Name)
					}
					for _, name := range s.Names {
						key := add(name, "")
						if group = append(group, key); key != "" && d.Tok == token.VAR {
							madeOf(s)
						}
					}
				}
			}
			if d.Tok == token.CONST {
				n.groups = append(n.groups, group)
			}
		}
	}
}
