package ringlet

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	testCommand = regexp.MustCompile(`(?:cd (\S+) && .*)?go test (.*)`)
	testPattern = regexp.MustCompile(`-run '?([^' ]+)`)
	testPackage = regexp.MustCompile(` (\./[\w/]+)`)
	testName    = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestTargetsRunWhatTheyName holds that each package which a target of the Makefile tests by a name has a test of that
// name. Without one go test says that all is well.
func TestTargetsRunWhatTheyName(t *testing.T) {
	text := strings.ReplaceAll(string(read(t, "Makefile")), "\\\n", " ")
	seen := 0
	for _, m := range testCommand.FindAllStringSubmatch(text, -1) {
		dir, args := m[1], m[2]
		run := testPattern.FindStringSubmatch(args)
		if run == nil || strings.ContainsAny(run[1][:1], "$^") { // an argument of a macro, or no test at all
			continue
		}
		pattern := regexp.MustCompile(run[1])
		for _, p := range testPackage.FindAllStringSubmatch(args, -1) {
			seen++
			if !hasTest(t, path.Join(dir, p[1]), pattern) {
				t.Errorf("go test %s: no test of %s matches %s", args, p[1], pattern)
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d packages are tested by name", seen)
	}
}

// hasTest says whether a folder has a test whose name matches.
func hasTest(t *testing.T, dir string, pattern *regexp.Regexp) bool {
	t.Helper()
	for _, file := range files(t, "_test.go") {
		if path.Dir(file) != dir {
			continue
		}
		for _, name := range testName.FindAllSubmatch(read(t, file), -1) {
			if pattern.Match(name[1]) {
				return true
			}
		}
	}
	return false
}
