package ringlet

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// wordLimits are how many words documents have at most, by the folder or file that a name begins with. What comes later
// replaces text. Who needs more raises a number here, and says why in the same commit.
var wordLimits = map[string]int{
	"README.md": 1400,
	// 128,500 since a run outlives its processes (42): takeover, passing over, seats, push, registers, triggers.
	// 128,650: runs of the soak that must go on. 128,850: one table of what a run bears. 128,900:
	// triggers whose scheduler is taken over. 130,500: data as detectors make them (43): fragments of any size, drift,
	// quality, and several nodes in a process. 130,800: the setting silence, and the times that follow.
	// 131,100: fragments up to 1 GiB of every kind of source, and chains of banks.
	// 132,300: front-ends that follow the run.
	// 133,400: slow data: the lines of senders, the file of a recording, where they enter and who writes them, and a scan
	// that steps a value.
	// 134,050: how events are matched by trigger numbers, times, counters.
	// 134,650: busy, its causes, datagrams and dead time.
	// 135,150: words of every kind of source, and the window of times.
	// 135,500: HDF5 and NumPy, and what a file says of its run.
	// 135,850: a program follows the run by lines, a ring by words.
	// 136,200: busy, as front-ends hear and say it, and dead time.
	"docs/":        136_200,
	"docs/tour.md": 2500,
}

// maxNotes is how many design notes there are at most: one subject, one note.
const maxNotes = 32

func TestDocumentsAreShort(t *testing.T) {
	words, notes := map[string]int{}, 0
	for _, file := range files(t, ".md") {
		if path.Dir(file) == "docs/design" {
			notes++
		}
		for prefix := range wordLimits {
			if file == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(file, prefix) {
				words[prefix] += len(bytes.Fields(read(t, file)))
			}
		}
	}
	for prefix, most := range wordLimits {
		if n := words[prefix]; n == 0 || n > most {
			t.Errorf("%s has %d words, and at most %d are allowed: replace text, or raise the limit with a reason", prefix, n,
				most)
		}
	}
	if notes > maxNotes {
		t.Errorf("docs/design has %d notes, and at most %d are allowed: join those of one subject", notes, maxNotes)
	}
}

// isIdentifier says whether a word has the shape of a name in code, such as HandleGrant, lowestNeeded or MEPs_built.
func isIdentifier(word string) bool {
	lower, upper := false, false
	for i, r := range word {
		lower = lower || unicode.IsLower(r)
		upper = upper || unicode.IsUpper(r) && i > 0
	}
	return lower && upper
}

// codeFiles are the endings of files whose words are names that exist.
var codeFiles = []string{".go", ".proto", ".c", ".h", ".py", ".js", ".ts", ".yaml", ".yml", ".s", ".sh", ".json",
	".html", ".css", ".mod"}

// codeNames are all words of files that are code, and the names of these files, with any part of their path.
func codeNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range files(t, "") {
		if !slices.Contains(codeFiles, path.Ext(file)) && path.Base(file) != "Makefile" {
			continue
		}
		names[file] = true
		for i, r := range file {
			if r == '/' {
				names[file[i+1:]] = true
			}
		}
		for w := range bytes.FieldsFuncSeq(read(t, file), func(r rune) bool {
			return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}) {
			names[string(w)] = true
		}
	}
	return names
}

// A document names what exists: a reader looks for it.
func TestDocumentsNameWhatExists(t *testing.T) {
	known := codeNames(t)
	fenced := regexp.MustCompile("(?ms)^ *```.*?^ *```")
	spans := regexp.MustCompile("`([^`\n]+)`")
	shape := regexp.MustCompile(`^\*?[A-Za-z_][\w.]*(\(\))?$`)
	goFile := regexp.MustCompile(`^[\w/]+\.go$`)
	made := []string{"bare.go", "tcp.go", "random.go", "counter.go"} // by the reader who follows docs/extending.md
	for _, file := range files(t, ".md") {
		if file == "docs/dropped.md" || file == "CHANGELOG.md" { // which name what was
			continue
		}
		for _, m := range spans.FindAllSubmatch(fenced.ReplaceAll(read(t, file), nil), -1) {
			span := string(m[1])
			if goFile.MatchString(span) && !known[span] &&
				!(file == "docs/extending.md" && slices.Contains(made, path.Base(span))) {
				t.Errorf("%s names the file `%s`, which is not there", file, span)
			}
			if !shape.MatchString(span) {
				continue
			}
			for word := range strings.SplitSeq(strings.Trim(span, "*()"), ".") {
				if isIdentifier(word) && !known[word] {
					t.Errorf("%s names %s in `%s`, which is nowhere in the code", file, word, span)
				}
			}
		}
	}
}

// tourFile is a file of the tour with its functions behind it: `tagnet/server.go` `ownerLoop`, `carryOut`.
var tourFile = regexp.MustCompile("`([a-z][\\w/]*\\.go)`((?:(?: |, | and |,\n|\n *)+`\\w+`)+)")

// The tour names files with their functions: each must be there.
func TestTourNamesFunctions(t *testing.T) {
	found, span := 0, regexp.MustCompile("`(\\w+)`")
	for _, m := range tourFile.FindAllSubmatch(read(t, "docs/tour.md"), -1) {
		code := read(t, string(m[1]))
		for _, name := range span.FindAllSubmatch(m[2], -1) {
			found++
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + string(name[1]) + `\b`).Match(code) {
				t.Errorf("the tour says that %s is in %s, and it is not", name[1], m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("the tour names %d functions with their files: it is a walk of about 20", found)
	}
}
