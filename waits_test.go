package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// boundedBy is what the line of a wait says, or the one above, where something else than package patiently bounds it.
var boundedBy = regexp.MustCompile(`// .*\bbounded by \w`)

// TestNoTestWaitsForEver: whatever a test waits for, it waits with a bound, so that what does not come is a failure
// with a sentence and not ten minutes of nothing. A receive from a channel, a loop over one, a Wait and a select of a
// test have a bound of package patiently, a case for the end of a time or a context, or a bubble of synctest around
// them, which ends at once where nothing can come any more. What a goroutine beside the test waits for is not looked
// at: the test waits for that goroutine. A benchmark has the time that it is given.
func TestNoTestWaitsForEver(t *testing.T) {
	for _, file := range files(t, "_test.go") {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, read(t, file), parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(read(t, file)), "\n")
		w := waits{report: func(at token.Pos, what string) {
			line := set.Position(at).Line
			if boundedBy.MatchString(lines[line-1]) || line > 1 && boundedBy.MatchString(lines[line-2]) {
				return
			}
			t.Errorf("%s:%d: %s has no bound: use testkit/patiently, or say on this line \"bounded by\" what", file, line, what)
		}}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Benchmark") {
				continue
			}
			w.chans = channels(d)
			ast.Walk(w, d)
		}
	}
}

// waits finds what waits without a bound.
type waits struct {
	chans  map[string]bool // what is a channel in the declaration that is looked at
	report func(at token.Pos, what string)
}

// Visit does not go into what need not be looked at.
func (w waits) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.GoStmt:
		return nil
	case *ast.SelectStmt:
		w.selects(n)
		return nil
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			w.report(n.Pos(), "a receive")
		}
	case *ast.RangeStmt:
		if name := lastName(n.X); w.chans[name] {
			w.report(n.Pos(), "a loop over the channel "+name)
		}
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		switch {
		case !ok:
		case s.Sel.Name == "Go", lastName(s.X) == "synctest":
			return nil
		case s.Sel.Name == "Wait" && len(n.Args) == 0:
			w.report(n.Pos(), lastName(s.X)+".Wait")
		}
	}
	return w
}

// selects looks at a select: one of its cases is there at once, or when a time or a context is over.
func (w waits) selects(n *ast.SelectStmt) {
	bounded := false
	for _, c := range n.Body.List {
		c := c.(*ast.CommClause)
		for _, s := range c.Body {
			ast.Walk(w, s)
		}
		bounded = bounded || c.Comm == nil
		if c.Comm == nil {
			continue
		}
		ast.Inspect(c.Comm, func(n ast.Node) bool {
			if from, ok := n.(*ast.UnaryExpr); ok && from.Op == token.ARROW {
				switch lastName(from.X) {
				case "After", "C", "Done":
					bounded = true
				}
			}
			return true
		})
	}
	if !bounded {
		w.report(n.Pos(), "a select")
	}
}

// lastName is the name that an expression ends with: that of a variable, a field, or a function that is called.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return lastName(e.Fun)
	}
	return ""
}

// channels has the names of what is a channel in a part of the source: variables, fields and parameters of such a type,
// and what is made as one.
func channels(in ast.Node) map[string]bool {
	names := map[string]bool{}
	note := func(of ast.Expr, all []*ast.Ident) {
		for _, name := range all {
			if _, is := of.(*ast.ChanType); is {
				names[name.Name] = true
			}
		}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			note(n.Type, n.Names)
		case *ast.ValueSpec:
			note(n.Type, n.Names)
		case *ast.AssignStmt:
			for i, made := range n.Rhs {
				call, ok := made.(*ast.CallExpr)
				if name, is := n.Lhs[i].(*ast.Ident); ok && is && lastName(call.Fun) == "make" {
					note(call.Args[0], []*ast.Ident{name})
				}
			}
		}
		return true
	})
	return names
}
