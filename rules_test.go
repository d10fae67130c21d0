package ringlet

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines of a Go file written by hand (style.md, convention 3). Tests may be as long; they are split for readers all
// the same.
const maxLines = 500

// A core that decides as one is one file: with all it decides in one place it may be longer. So may an object of one
// subject: the commands of a partition with the actions that they are made of, its members with the rule who takes
// part, and the set of nodes with all that is asked of it.
const maxCoreLines = 800

var cores = []string{
	"builderunit/assembler.go", "ecs/partition/commands.go", "ecs/partition/members.go",
	"ecs/partition/nodes/nodeset.go", "readoutunit/core.go", "readoutunit/transfers.go", "shmem/grants.go",
	"transport/link/recovery.go",
}

// files lists the repository's files of that suffix by their slashed paths, without folders that begin with a dot, and
// testdata.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && file != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata" || file == "bin") {
			return fs.SkipDir
		}
		if e.Type().IsRegular() && strings.HasSuffix(file, suffix) {
			out = append(out, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parseHead reads a Go file's package clause and comments.
func parseHead(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// handWritten lists the Go files that people wrote.
func handWritten(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(files(t, ".go"), func(file string) bool { return ast.IsGenerated(parseHead(t, file)) })
}

func TestEveryPackageHasItsDoc(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range handWritten(t) {
		dir := path.Dir(file)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		doc := path.Join(dir, "doc.go")
		if _, err := os.Stat(doc); err != nil {
			t.Errorf("%s has no doc.go", dir)
			continue
		}
		if f := parseHead(t, doc); f.Doc == nil || len(strings.Fields(f.Doc.Text())) < 20 {
			t.Errorf("%s has no package comment that says what the package is, stands for, asks of its caller and does not "+
				"promise", doc)
		}
	}
}

func TestNoFileIsTooLong(t *testing.T) {
	for _, file := range handWritten(t) {
		most := maxLines
		if slices.Contains(cores, file) {
			most = maxCoreLines
		}
		if n := bytes.Count(read(t, file), []byte("\n")); n > most {
			t.Errorf("%s has %d lines: split it by topic, %d are the most", file, n, most)
		}
	}
}

// TestOneWayToTheLinkCore: whatever writes into another process's memory over a network, the units of an event builder
// and remote memory alike, does so through package transport (docs/design/055).
func TestOneWayToTheLinkCore(t *testing.T) {
	for _, file := range handWritten(t) {
		switch dir := path.Dir(file); {
		case dir == "transport", strings.HasSuffix(file, "_test.go"):
		case bytes.Contains(read(t, file), []byte("link.New(")):
			t.Errorf("%s makes a link core of its own: package transport has them", file)
		}
	}
}

func TestNoFolderWithoutADuty(t *testing.T) {
	for _, file := range handWritten(t) {
		for _, elem := range strings.Split(path.Dir(file), "/") {
			switch elem {
			case "util", "utils", "common", "pkg", "types", "helpers", "misc":
				t.Errorf("%s: a package has one duty, named by the field's own word; %q names none", file, elem)
			}
		}
	}
}

// modDirective is a line of go.mod with the block it stands in: {"require", "example.org/x v1.0.0 // indirect"}.
type modDirective struct{ verb, rest string }

func modDirectives(t *testing.T) []modDirective {
	t.Helper()
	var out []modDirective
	block := ""
	for lines := bufio.NewScanner(bytes.NewReader(read(t, "go.mod"))); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
		case line == ")":
			block = ""
		case block != "":
			out = append(out, modDirective{block, line})
		case strings.HasSuffix(line, "("):
			block = verb
		default:
			out = append(out, modDirective{verb, rest})
		}
	}
	return out
}

func TestDependenciesHaveTheirReason(t *testing.T) {
	const record = "docs/dependencies.md"
	text := string(read(t, record))
	direct := 0
	for _, d := range modDirectives(t) {
		switch {
		case d.verb == "replace":
			t.Errorf("go.mod replaces %s: nobody else would build what is built here", d.rest)
		case d.verb == "require" && !strings.Contains(d.rest, "// indirect"):
			direct++
			if module, _, _ := strings.Cut(d.rest, " "); !strings.Contains(text, "`"+module+"`") {
				t.Errorf("%s does not say what %s is for", record, module)
			}
		}
	}
	if direct == 0 {
		t.Error("no dependency found in go.mod: this test does not read it rightly")
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(modDirectives(t), func(d modDirective) bool {
			return d.verb == "require" && strings.HasPrefix(d.rest, m[1]+" ") && !strings.Contains(d.rest, "// indirect")
		}) {
			t.Errorf("%s gives a reason for %s, which go.mod does not require directly", record, m[1])
		}
	}
}

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]*`")
	mdLink     = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)`)
	withScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

func TestDocumentsLinkToWhatExists(t *testing.T) {
	found := 0
	for _, file := range files(t, ".md") {
		text := codeBlock.ReplaceAll(read(t, file), nil)
		for _, m := range mdLink.FindAllSubmatch(text, -1) {
			target, _, _ := strings.Cut(string(m[1]), "#")
			if target == "" || withScheme.MatchString(target) {
				continue
			}
			found++
			to := path.Join(path.Dir(file), target)
			if strings.HasPrefix(to, "../") || path.IsAbs(target) {
				t.Errorf("%s links to %s, outside of the repository", file, target)
			} else if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", file, target)
			}
		}
	}
	t.Logf("%d links", found)
}

// byName are the ways to open a file that follow a symbolic link.
var byName = regexp.MustCompile(`\b(os\.(Create|OpenFile|ReadFile|WriteFile|Truncate)|safeopen\.Open)\(`)

// TestOutputsAreOpenedWithoutLinks: who may write the directory of an output chooses what a link in it leads to, so
// what works there opens files by the functions for that (internal/safeopen).
func TestOutputsAreOpenedWithoutLinks(t *testing.T) {
	exclusive := regexp.MustCompile(`os\.O_EXCL|"/proc/`) // O_EXCL follows none
	for _, file := range files(t, ".go") {
		dir := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || !slices.Contains([]string{"recording", "builderunit/sink",
			"convert/conversion", "ecs/record", "lab/page", "lab/mem"}, dir) {
			continue
		}
		for line := range bytes.Lines(read(t, file)) {
			if byName.Match(line) && !exclusive.Match(line) {
				t.Errorf("%s follows a symbolic link: %s", file, bytes.TrimSpace(line))
			}
		}
	}
}
