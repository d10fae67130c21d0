package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringlet/internal/counter"
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
	for _, file := range []string{
		"ecs/partition/nodes/report.go", "ecs/partition/nodes/faults.go", "ecs/partition/nodes/accounts.go",
		"ecs/partition/nodes/builders.go",
	} {
		for _, tag := range literals(t, file, `^json:`) {
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			fields = append(fields, name)
		}
	}
	mustName(t, doc, "field", fields)
	mustName(t, doc, "check", literals(t, "ecs/partition/nodes/accounts.go", `^[^:%]+ [^:%]+ [^:%]+ [^:%]+$`))
	mustName(t, doc, "end cause", literals(t, "ecs/run/run.go",
		`^(duration|events|end_of_input|interrupted|bad_input|fault)$`))
}

// Nobody asks for a counter that nobody counts, in the program, on the page or in a manual: a name that was changed is
// changed everywhere.
func TestCountersThatAreReadAreCounted(t *testing.T) {
	all := node.Counters()
	owners := map[string]bool{}
	for _, c := range all {
		owner, _, _ := strings.Cut(c.Name, ".")
		owners[owner] = true
	}
	quoted := regexp.MustCompile("[\"`]([a-z]+)\\.([a-z_]+)[\"`]")
	found := 0
	invented := regexp.MustCompile(`_test\.go$|^docs/extending\.md$`)
	for _, file := range slices.Concat(files(t, ".go"), files(t, ".js"), files(t, ".md")) {
		if invented.MatchString(file) {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(string(read(t, file)), -1) {
			name := m[1] + "." + m[2]
			_, ok := all.Find(name)
			if strings.HasSuffix(name, "_") { // how names begin that end with what is counted
				ok = slices.ContainsFunc(all, func(c counter.Counter) bool { return strings.HasPrefix(c.Name, name) })
			}
			if owners[m[1]] && !ok && name != node.CounterLinks && !isFile(m[2]) {
				t.Errorf("%s reads the counter %s, which nobody counts", file, name)
			}
			found++
		}
	}
	if found < 50 {
		t.Errorf("%d names: this test does not read them rightly", found)
	}
}

// isFile tells the end of the name of a file, which a counter could be called as well.
func isFile(end string) bool {
	return slices.Contains([]string{"go", "md", "key", "crt", "json"}, end)
}

func TestManualExplainsTheColumnsOfASweep(t *testing.T) {
	mustName(t, "docs/benchmarks.md", "column", sweep.Columns())
}
