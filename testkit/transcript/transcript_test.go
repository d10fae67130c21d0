package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ringlet/testkit/patiently"

	"pgregory.net/rapid"
)

// TestPlay plays a transcript with a core that adds.
func TestPlay(t *testing.T) {
	Play(t, func(t *testing.T) Answer {
		sum := 0
		return func(command string) string {
			words := strings.Fields(command)
			if words[0] == "forget" {
				sum = 0
				return ""
			}
			var out strings.Builder
			for _, w := range words[1:] {
				sum += Number(t, w)
				fmt.Fprintln(&out, sum)
			}
			return out.String()
		}
	})
}

func TestScripts(t *testing.T) {
	for name, c := range map[string]struct{ script, now, says string }{
		"answers written anew":  {script: "# a\n\n> x\nold\n> y\n", now: "# a\n\n> x\nx!\n> y\ny!\n"},
		"no last line end":      {script: "> x", now: "> x\nx!\n"},
		"an answer not asked":   {script: "stray\n> x\nx!\n", now: "> x\nx!\n"},
		"said too much":         {script: "> x\nx!\nx!\n", now: "> x\nx!\n"},
		"no prompt":             {script: ">x\n# >\n", says: "nothing is said"},
		"nothing behind prompt": {script: ">  \n", says: "a line says nothing"},
		"silence":               {script: "> \t\nx\n", says: "a line says nothing"},
		"answer not ended":      {script: "> unended\n", says: `the answer to "unended" does not end its last line`},
		"answer is a prompt":    {script: "> prompt\n", says: `the answer to "prompt" has the line "> a\n"`},
		"answer is a remark":    {script: "> remark\n", says: `has the line "# a\n"`},
		"answer has a gap":      {script: "> gap\n", says: `has the line "\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{"unended": "a", "prompt": "> a\n", "remark": "# a\n", "gap": "a\n\nb\n"}
			now, err := play(c.script, func(command string) string {
				if a, ok := answers[command]; ok {
					return a
				}
				return command + "!\n"
			})
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("says %v, not %q", err, c.says)
				}
				return
			}
			if err != nil || now != c.now {
				t.Errorf("plays %q (%v), not %q", now, err, c.now)
			}
		})
	}
}

// judged is a test that keeps what it was told in place of failing.
type judged struct {
	testing.TB
	message string
	fatal   bool
}

func (j *judged) Helper() {}

func (j *judged) Errorf(format string, args ...any) { j.message += fmt.Sprintf(format, args...) }

func (j *judged) Fatalf(format string, args ...any) {
	j.fatal = true
	j.Errorf(format, args...)
	runtime.Goexit()
}

func (j *judged) Fatal(args ...any) { j.Fatalf("%s", fmt.Sprint(args...)) }

// judge runs a check that may fail.
func judge(check func(t testing.TB)) *judged {
	j := &judged{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(j)
	}()
	patiently.Hold(done)
	return j
}

func TestExpect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt")
	set := func(on bool) {
		before := *update
		*update = on
		t.Cleanup(func() { *update = before })
	}
	set(false)
	if j := judge(func(t testing.TB) { Expect(t, file, "a\n") }); !j.fatal ||
		!strings.Contains(j.message, "-update writes it") {
		t.Errorf("a missing file: %+v", j)
	}
	set(true)
	if j := judge(func(t testing.TB) { Expect(t, file, "1\n2\n3\n4\n5\n6\n7\n8\n9\n") }); j.message != "" {
		t.Errorf("writing: %+v", j)
	}
	set(false)
	if j := judge(func(t testing.TB) { Expect(t, file, "1\n2\n3\n4\n5\n6\n7\n8\n9\n") }); j.message != "" {
		t.Errorf("the same: %+v", j)
	}
	j := judge(func(t testing.TB) { Expect(t, file, "1\n2\n3\n4\nfive\nand more\n6\n7\n8\n9") })
	_, shown, _ := strings.Cut(j.message, "review):\n")
	want := `    2   2
    3   3
    4   4
    5 - 5
      + five
      + and more
    6   6
    7   7
    8   8
    9 - 9
      + 9 (without a line end)
`
	if j.fatal || shown != want {
		t.Errorf("shows\n%s\nnot\n%s", j.message, want)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(text), "9\n") {
		t.Errorf("a difference changed the file to %q, %v", text, err)
	}
}

func TestUpdateSaysWhyItCannotWrite(t *testing.T) {
	before := *update
	*update = true
	defer func() { *update = before }()
	j := judge(func(tb testing.TB) { Expect(tb, filepath.Join(t.TempDir(), "none", "a.txt"), "a\n") })
	if !j.fatal || !strings.Contains(j.message, "a.txt") {
		t.Errorf("%+v", j)
	}
}

func TestNumber(t *testing.T) {
	for word, want := range map[string]int{"3": 3, "ru12": 12, "bu0:": 0, "7,": 7} {
		if got := Number(t, word); got != want {
			t.Errorf("%q is %d", word, got)
		}
	}
	for _, word := range []string{"", "ru", "-1", "3x", "1.5", "99999999999999999999"} {
		if j := judge(func(t testing.TB) { Number(t, word) }); !j.fatal || !strings.Contains(j.message, "is no number") {
			t.Errorf("%q: %+v", word, j)
		}
	}
}

// TestCompare: the edits hold both texts, no line twice, and nothing more is changed than must be.
func TestCompare(t *testing.T) {
	text := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n"}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		written, now := text.Draw(t, "written"), text.Draw(t, "now")
		var left, right []string
		equal := 0
		for _, e := range compare(written, now) {
			switch e.op {
			case ' ':
				left, right = append(left, e.line), append(right, e.line)
				equal++
			case '-':
				left = append(left, e.line)
			case '+':
				right = append(right, e.line)
			}
		}
		if !slices.Equal(left, written) || !slices.Equal(right, now) {
			t.Fatalf("from %q to %q", left, right)
		}
		if best := longest(written, now); equal != best {
			t.Fatalf("%d lines are kept, %d can be", equal, best)
		}
		if shown := formatEdits(compare(written, now)); (shown == "") != slices.Equal(written, now) {
			t.Fatalf("shows %q", shown)
		}
	})
}

// longest is how many lines a and b share in order: row by row, the other way round than compare finds it.
func longest(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			row[j+1] = max(row[j], above)
			if x == y {
				row[j+1] = diagonal + 1
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// TestCheck: what play would not know again as an answer is refused.
func TestCheck(t *testing.T) {
	for answer, bad := range map[string]bool{
		"": false, "a\n": false, "a\n b\n": false, ">a\n": false, "a": true, " \n": true,
	} {
		if err := checkAnswer(answer); (err != nil) != bad {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
