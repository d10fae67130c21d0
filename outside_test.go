package ringlet

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outsidePage has the table of what comes from outside of a process and reaches a decision.
const outsidePage = "docs/design/064-inputs-from-outside.md"

// outsider finds where something from outside enters the files of a package.
type outsider struct {
	file string
	set  *token.FileSet
	dir  string
	find func(at string, place, what string)
}

var (
	listenNames = regexp.MustCompile(`^(Listen([A-Z]|$)|NewNetTransport$)`)
	parserNames = regexp.MustCompile(`^([Pp]arse|[Rr]ead|[Dd]ecode|[Uu]nmarshal|[Ll]oad)([A-Z]|$)`)
	backquoted  = regexp.MustCompile("`([^`]+)`")
)

// outsideCluster are folders that stand in no cluster: lab measures, checks breaks clusters, testkit tests, cicheck
// checks this repository.
var outsideCluster = regexp.MustCompile(`^(lab|checks|testkit|internal/cicheck)/`)

// TestEveryInputFromOutsideHasItsRow: the page says which listeners, parsers and RPCs its tables must name, and how
// they are found. What the tables name is there.
func TestEveryInputFromOutsideHasItsRow(t *testing.T) {
	named := namedOutside(t)
	packages := map[string]bool{} // that are named, or of which a function is
	for name := range named {
		folder, last := path.Split(name)
		last, _, _ = strings.Cut(last, ".")
		packages[folder+last] = true
	}
	seen := map[string]bool{}
	find := func(at, place, what string) {
		seen[place] = true
		if !named[place] && !packages[place] {
			t.Errorf("%s: %s: %s has no row that names `%s`: say who may send it, what bounds it, what happens beyond",
				at, what, outsidePage, place)
		}
	}
	for _, file := range files(t, ".go") {
		if outsideCluster.MatchString(file) {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, read(t, file), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		seen[path.Dir(file)] = true
		o := outsider{file, set, path.Dir(file), find}
		for _, d := range f.Decls {
			seen[o.place(d)] = true
			if !ast.IsGenerated(f) {
				o.look(d)
			}
		}
	}
	rpcs(t, find)
	for name := range named {
		if !seen[name] {
			t.Errorf("%s names `%s`, which is not there", outsidePage, name)
		}
	}
}

// namedOutside is what stands in backticks in the last column of the page's tables of inputs, which is "read by".
func namedOutside(t *testing.T) map[string]bool {
	t.Helper()
	named := map[string]bool{}
	inputs := false
	for lines := bufio.NewScanner(bytes.NewReader(read(t, outsidePage))); lines.Scan(); {
		row := strings.Split(strings.TrimSuffix(lines.Text(), "|"), "|")
		last := strings.TrimSpace(row[len(row)-1])
		switch {
		case !strings.HasPrefix(lines.Text(), "|"):
			inputs = false
		case last == "read by":
			inputs = true
		case inputs:
			for _, m := range backquoted.FindAllStringSubmatch(last, -1) {
				named[m[1]] = true
			}
			if len(row) != 7 {
				t.Errorf("%s: a row has %d columns and not 6: %s", outsidePage, len(row)-1, lines.Text())
			}
		}
	}
	if len(named) == 0 {
		t.Fatalf("%s names nothing: this test does not read it rightly", outsidePage)
	}
	return named
}

// rpcs finds each method of each service.
func rpcs(t *testing.T, find func(at, place, what string)) {
	t.Helper()
	word := regexp.MustCompile(`^\s*(service|rpc)\s+(\w+)`)
	for _, file := range files(t, ".proto") {
		service := ""
		for i, line := range strings.Split(string(read(t, file)), "\n") {
			switch m := word.FindStringSubmatch(line); {
			case m == nil:
			case m[1] == "service":
				service = m[2]
			default:
				find(fmt.Sprintf("%s:%d", file, i+1), service+"."+m[2], "an RPC")
			}
		}
	}
}

// look finds what a declaration has.
func (o outsider) look(d ast.Decl) {
	fn, is := d.(*ast.FuncDecl)
	switch {
	case !strings.HasSuffix(o.file, "_test.go"):
		o.listens(d)
		if is {
			o.parses(fn)
		}
	case is && strings.HasPrefix(fn.Name.Name, "Fuzz"):
		o.find(o.position(fn), o.dir, "a fuzz target")
	}
}

// place of a function is folder.Func or folder.Type.Method; that of any other declaration is the folder.
func (o outsider) place(d ast.Decl) string {
	fn, ok := d.(*ast.FuncDecl)
	if !ok {
		return o.dir
	}
	name := fn.Name.Name
	if fn.Recv != nil {
		of := fn.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		name = lastName(of) + "." + name
	}
	return o.dir + "." + name
}

func (o outsider) position(n ast.Node) string {
	return fmt.Sprintf("%s:%d", o.file, o.set.Position(n.Pos()).Line)
}

// parses finds functions that read. A method Read([]byte) (int, error) is an io.Reader: it gives bytes and takes none.
func (o outsider) parses(fn *ast.FuncDecl) {
	reader := fn.Recv != nil && fn.Name.Name == "Read" && fn.Type.Results.NumFields() == 2
	if !parserNames.MatchString(fn.Name.Name) || reader {
		return
	}
	text := false
	for _, p := range fn.Type.Params.List {
		if slices.ContainsFunc(p.Names, func(name *ast.Ident) bool { return name.Name == "dst" }) { // that is filled
			return
		}
		switch kind := source(p.Type); kind {
		case "[]byte", "io.Reader", "io.ReadCloser", "io.ReaderAt", "*bufio.Reader", "*os.File", "*http.Request":
			o.find(o.position(fn), o.place(fn), "a parser")
			return
		case "string", "[]string":
			text = true
		}
	}
	if text {
		o.find(o.position(fn), o.dir, "a parser of text")
	}
}

// source writes the types of parameters that parsers have.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + source(e.X)
	case *ast.ArrayType:
		return "[]" + source(e.Elt)
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	}
	return ""
}

// listens finds calls that open a door, and reads of the environment.
func (o outsider) listens(d ast.Decl) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if source(n.Type) == "http.Server" {
				o.find(o.position(n), o.place(d), "a server")
			}
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			switch name := source(n.Fun); {
			case !ok:
			case listenNames.MatchString(s.Sel.Name), name == "grpc.NewServer":
				o.find(o.position(n), o.place(d), "a listener")
			case name == "os.Getenv", name == "os.LookupEnv":
				o.environment(n, d)
			}
		}
		return true
	})
}

func (o outsider) environment(call *ast.CallExpr, d ast.Decl) {
	if text, ok := call.Args[0].(*ast.BasicLit); ok {
		if name, err := strconv.Unquote(text.Value); err == nil {
			o.find(o.position(call), name, "a variable of the environment")
			return
		}
	}
	o.find(o.position(call), o.place(d), "variables of the environment")
}

func TestInputsFromOutsideAreFound(t *testing.T) {
	const text = `package p
var door, _ = net.Listen("tcp", "127.0.0.1:0")
func Open(ctx context.Context) { (&net.ListenConfig{}).Listen(ctx, "tcp", os.Getenv("AT")) }
func serve() { grpc.NewServer(); _ = &http.Server{}; _ = quic.ListenAddr; memberlist.NewNetTransport(nil) }
func Parse(b []byte) error { return nil }
func (h *header) read(r *bufio.Reader) { os.Getenv(name) }
func LoadKind(name string) {}
func (s *stream) Read(p []byte) (int, error) { return 0, nil }
func readInto(dst []byte) {}
func ready(b []byte) { lis.Listener("tcp") }
`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "a/p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	o := outsider{"a/p.go", set, "a", func(at, place, _ string) { got = append(got, at[len("a/p.go:"):]+" "+place) }}
	for _, d := range f.Decls {
		o.look(d)
	}
	o.file = "a/p_test.go"
	o.look(&ast.FuncDecl{Name: ast.NewIdent("FuzzParse"), Type: &ast.FuncType{Func: f.Pos()}})
	want := []string{"2 a", "3 a.Open", "3 AT", "4 a.serve", "4 a.serve", "4 a.serve", "5 a.Parse", "6 a.header.read",
		"6 a.header.read", "7 a"}
	if len(got) != len(want)+1 || !slices.Equal(got[:len(want)], want) || !strings.HasSuffix(got[len(want)], " a") {
		t.Errorf("found %q, want %q and a fuzz target", got, want)
	}
}
