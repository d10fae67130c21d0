package page

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"ringlet/lab/trial"
)

// Nothing that the page is made of is missing, and what it is given cannot break out of its place.
func TestThePageIsWhole(t *testing.T) {
	_ = fs.WalkDir(webFiles, "web", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && embedded(strings.TrimPrefix(path, "web/")) == "" {
			t.Errorf("%s: %v, or empty", path, err)
		}
		return nil
	})
	p := Page{Kind: "Kind", Name: "<b>", Lead: "lead", Sections: []Section{
		{ID: "one", Title: "One", Table: TextTable([]string{"a", "b"}, [][]string{{"x", "</script>"}}, 1)},
		{ID: "two", Title: "Two", Text: "text", Ran: []Ran{{Machine: ThisMachine("v1").ForProcesses(2)}, {}},
			Figures: []Figure{{Title: "</script>"}}},
	}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"<title>&lt;b&gt; – Kind</title>", `<td class="words">&lt;/script&gt;</td>`, `data-figures="1"`, "<h3>Resumed", " cores for at most 2 nodes",
		"uPlot=function", `[{},{"figures":[{"title":"\u003c/script\u003e"`, "<pre>text</pre>", "default-src 'none'",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("the page has no %q", part)
		}
	}
}

func TestCellsOfSpreads(t *testing.T) {
	for want, v := range map[string][]float64{
		"–": nil, "2": {2, 2}, "2 | 1–3": {1, 2, 3}, "3.5 | 1–6; 95 %: 1–6": {1, 2, 3, 4, 5, 6},
	} {
		c := SpreadCell(trial.SpreadOf(v))
		if got := strings.TrimSuffix(c.Text+" | "+c.Small, " | "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestProcessor(t *testing.T) {
	model, flags := processor(strings.NewReader("processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu vaes aes\n" +
		"model name\t: C\n"))
	if model != "A: B" || !slices.Equal(flags, []string{"aes", "vaes"}) {
		t.Errorf("%q, %q", model, flags)
	}
	m := ThisMachine("v1")
	m.CPU, m.Flags, m.Cores, m.Kernel, m.Go, m.Commit = "A", []string{"aes", "vaes"}, 2, "Linux 6", "go1", "abc"
	if m.String() != "A (aes vaes), 2 cores, Linux 6, go1" || m.Program() != "v1, commit abc" {
		t.Errorf("%s; %s", &m, m.Program())
	}
}
