package ringlet

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const sources = "docs/sources.md"

var (
	sectionMark = regexp.MustCompile(`§(?:[IVX]+|\d+)(?:\.(?:\d+|[A-K])\b)*`)
	brokenLine  = regexp.MustCompile(`\n[ \t]*(?://|#|\*)?[ \t]*`) // also within a comment
)

// sourceRows reads the names of the documents, and the sections that each has a sentence for.
func sourceRows(t *testing.T) (names []string, rows map[string]bool) {
	t.Helper()
	text := string(read(t, sources))
	rows = map[string]bool{}
	for _, section := range strings.Split(text, "\n## ")[1:] {
		name, table, _ := strings.Cut(section, "\n")
		if !strings.Contains(text, "\n| "+name+" | ") {
			t.Errorf("%s has no title for %s", sources, name)
		}
		names = append(names, name)
		for _, row := range regexp.MustCompile(`(?m)^\| (§\S+) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
			key := name + " " + row[1]
			if rows[key] || row[2] == "" {
				t.Errorf("%s has %s twice, or says nothing of it", sources, key)
			}
			rows[key] = true
		}
	}
	return names, rows
}

// citation is what finds a citation of one of these documents in a text of one line.
func citation(names []string) *regexp.Regexp {
	section := sectionMark.String()
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `) (` + section + `(?:(?:, and |, | and )` + section +
		`)*)`)
}

// citations finds what a text of one line cites, as "LHCb-EB §II.A"; of "LHCb-EB §II.A and §III.B" both.
func citations(cited *regexp.Regexp, text string) (out []string) {
	if !strings.Contains(text, "§") {
		return nil
	}
	for _, m := range cited.FindAllStringSubmatch(text, -1) {
		for _, s := range sectionMark.FindAllString(m[2], -1) {
			out = append(out, m[1]+" "+s)
		}
	}
	return out
}

// Whoever reads a citation finds in docs/sources.md what it is, and each sentence there is about something cited.
func TestSourcesAreExplained(t *testing.T) {
	names, rows := sourceRows(t)
	if len(names) != 5 {
		t.Fatalf("%s has the documents %q: this test does not read it rightly", sources, names)
	}
	nobody, cited := maps.Clone(rows), citation(names)
	private := regexp.MustCompile(`\b(?:[Ss]eeds?|[Dd]ocuments?) 00\d|\b[Ii]ssues? \d+`)
	for _, suffix := range []string{".go", ".md", ".yaml", ".proto", ".c", ".h", ".py", ".sh", ".js"} {
		for _, file := range files(t, suffix) {
			if file == sources || file == "CHANGELOG.md" || file == "sources_test.go" {
				continue
			}
			text := brokenLine.ReplaceAllString(string(read(t, file)), " ")
			for _, c := range citations(cited, text) {
				if delete(nobody, c); !rows[c] {
					t.Errorf("%s cites %s, of which %s says nothing", file, c, sources)
				}
			}
			if m := private.FindString(text); m != "" {
				t.Errorf("%s speaks of %q, which a stranger cannot look up", file, m)
			}
		}
	}
	for _, c := range slices.Sorted(maps.Keys(nobody)) {
		t.Errorf("%s explains %s, which nobody cites", sources, c)
	}
}

func TestCitationsAreFound(t *testing.T) {
	text := "// (LHCb-EB\n\t// §II.A and §III.B.2, figure 3), L1-farm §7.12. LHCb-EB as a whole, LHCb-EB §IV: see\n"
	want := []string{"LHCb-EB §II.A", "LHCb-EB §III.B.2", "L1-farm §7.12", "LHCb-EB §IV"}
	cited := citation([]string{"L1-farm", "LHCb-EB"})
	if got := citations(cited, brokenLine.ReplaceAllString(text, " ")); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
