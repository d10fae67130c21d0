package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
	"unicode"
)

// goneWords are words of identifiers that meant something in this project alone, or several things, and what is said
// in their place. docs/glossary.md has the terms. A word that ends in * stands for all that begin so.
var goneWords = map[string]string{
	"settle*": "say what it does: commit, finish, drain, retire, reconcile, close",
}

// fineWords are words of goneWords that a package has from elsewhere: a standard, a format, a frozen name.
var fineWords = map[string][]string{}

// goneNames are functions and methods whose name is one word that needs an object.
var goneNames = []string{"of", "at", "in", "has", "take", "give", "ask"}

// wordsOf takes an identifier apart: newTagRing is new, tag and ring.
func wordsOf(name string) (words []string) {
	letters := []rune(name)
	begin := 0
	for i, r := range letters {
		capital := i > begin && unicode.IsUpper(r) &&
			(!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if capital || r == '_' {
			words = append(words, strings.ToLower(string(letters[begin:i])))
			begin = i
			if r == '_' {
				begin++
			}
		}
	}
	return append(words, strings.ToLower(string(letters[begin:])))
}

// declared calls each for every identifier that a file declares.
func declared(f *ast.File, each func(id *ast.Ident)) {
	all := func(ids []*ast.Ident) {
		for _, id := range ids {
			each(id)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			each(n.Name)
		case *ast.TypeSpec:
			each(n.Name)
		case *ast.ValueSpec:
			all(n.Names)
		case *ast.Field:
			all(n.Names)
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				return true
			}
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok {
					each(id)
				}
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					each(id)
				}
			}
		}
		return true
	})
}

// goneIn says which words of an identifier are gone, in a package.
func goneIn(dir, name string) (word, instead string) {
	for _, w := range wordsOf(name) {
		for gone, instead := range goneWords {
			stem, open := strings.CutSuffix(gone, "*")
			if w != stem && !(open && strings.HasPrefix(w, stem)) {
				continue
			}
			fine := false
			for _, p := range fineWords[gone] {
				fine = fine || dir == p || strings.HasPrefix(dir, p+"/")
			}
			if !fine {
				return w, instead
			}
		}
	}
	return "", ""
}

// TestWordsThatAreGone holds identifiers to the glossary.
func TestWordsThatAreGone(t *testing.T) {
	for _, file := range handWritten(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		declared(f, func(id *ast.Ident) {
			if word, instead := goneIn(path.Dir(file), id.Name); word != "" {
				t.Errorf("%s: %s: the word %q is gone, see docs/glossary.md: %s", fset.Position(id.Pos()), id.Name, word, instead)
			}
		})
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, name := range goneNames {
				if strings.ToLower(fn.Name.Name) == name {
					t.Errorf("%s: %s: a function's name is a verb and its object", fset.Position(fn.Pos()), fn.Name.Name)
				}
			}
		}
	}
}
