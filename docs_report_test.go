package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ringlet/lab/sweep"
	"ringlet/node"
)

// literals finds the strings of a Go file that match.
func literals(t *testing.T, file, pattern string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), 0)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(pattern)
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && match.MatchString(s) {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}

// mustName checks that a document has each of the names in backquotes or in a code block.
func mustName(t *testing.T, doc, what string, names []string) {
	t.Helper()
	text := string(read(t, doc))
	if len(names) == 0 {
		t.Errorf("no %s found: this test does not read them rightly", what)
	}
	for _, name := range names {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not explain the %s `%s`", doc, what, name)
		}
	}
}

func TestManualExplainsTheReport(t *testing.T) {
	const doc = "docs/report.md"
	var fields []string
	for _, file := range []string{"ecs/partition/nodes/report.go", "ecs/partition/nodes/faults.go", "ecs/partition/nodes/accounts.go", "ecs/partition/nodes/builders.go"} {
		for _, tag := range literals(t, file, `^json:`) {
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			fields = append(fields, name)
		}
	}
	mustName(t, doc, "field", fields)
	mustName(t, doc, "check", literals(t, "ecs/partition/nodes/accounts.go", `^[^:%]+ [^:%]+ [^:%]+ [^:%]+$`))
	mustName(t, doc, "end cause", literals(t, "ecs/partition/nodes/run.go", `^(duration|events|end_of_input|interrupted|bad_input|fault)$`))
}

func TestManualExplainsTheCounters(t *testing.T) {
	const doc, source = "docs/operating.md", "node/report.go"
	const counter = `^(link|node|socket|ru|bu)\.[a-z_]+$`
	names := append(literals(t, source, counter), node.LinkCounters()...)
	mustName(t, doc, "counter", names)
	for _, m := range regexp.MustCompile("`((link|node|socket|ru|bu)\\.[a-z_]+)`").FindAllStringSubmatch(string(read(t, doc)), -1) {
		if !strings.Contains(strings.Join(names, " ")+" ", m[1]+" ") {
			t.Errorf("%s explains the counter %s, which %s does not have", doc, m[1], source)
		}
	}
}

func TestManualExplainsTheColumnsOfASweep(t *testing.T) {
	mustName(t, "docs/benchmarking.md", "column", sweep.Columns())
}
