package transcript

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write into the files of testdata what is said now; review the change as prose")

// prompt begins a command.
const prompt = "> "

// Answer takes a command without its prompt, and returns the core's answer: no line, or lines that end in "\n" each.
type Answer func(command string) string

// Play runs each testdata/*.txt of the package under test as a subtest with the file's name; begin makes an Answer for
// each file. It fails t if there is no transcript, and a subtest without commands or with an answer that differs from
// the written one.
func Play(t *testing.T, begin func(t *testing.T) Answer) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in testdata (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			said, pending := "", false
			defer func() {
				if pending {
					t.Logf("%s: this was at %q", file, said)
				}
			}()
			answer := begin(t)
			now, err := play(string(script), func(command string) string {
				said, pending = command, true
				text := answer(command)
				pending = false
				return text
			})
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			Expect(t, file, now)
		})
	}
}

// play returns the script with new answers in place of the written ones. Lines that are neither commands nor remarks
// are answers: if there are some before the first command, play drops them, and Expect reports the difference.
func play(script string, answer Answer) (string, error) {
	var out strings.Builder
	spoken := false
	for line := range strings.Lines(script) {
		command, isCommand := strings.CutPrefix(line, prompt)
		switch {
		case isCommand:
			if command = strings.TrimSpace(command); command == "" {
				return "", errors.New("a line says nothing")
			}
			spoken = true
			text := answer(command)
			if err := checkAnswer(text); err != nil {
				return "", fmt.Errorf("the answer to %q %w", command, err)
			}
			out.WriteString(strings.TrimSuffix(line, "\n") + "\n" + text)
		case isRemark(line):
			out.WriteString(line)
		}
	}
	if !spoken {
		return "", fmt.Errorf("no line begins with %q: nothing is said", prompt)
	}
	return out.String(), nil
}

// isRemark says whether play copies a line unchanged: a remark or an empty line.
func isRemark(line string) bool { return strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" }

// checkAnswer refuses an answer that play would not recognise as an answer the next time.
func checkAnswer(answer string) error {
	if answer != "" && !strings.HasSuffix(answer, "\n") {
		return errors.New("does not end its last line")
	}
	for line := range strings.Lines(answer) {
		if isRemark(line) || strings.HasPrefix(line, prompt) {
			return fmt.Errorf("has the line %q, which a script may have for itself", line)
		}
	}
	return nil
}

// Expect fails t if the content of file differs from now, and shows the lines. With -update it writes the file instead.
func Expect(t testing.TB, file, now string) {
	t.Helper()
	written, err := os.ReadFile(file)
	switch {
	case err == nil && string(written) == now:
	case *update:
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Fatalf("%v (go test -update writes it)", err)
	default:
		t.Errorf("%s says something else (- written, + now; go test -update, then review):\n%s",
			file, formatEdits(compare(lines(string(written)), lines(now))))
	}
}

// lines splits a text after each line end, so that a last line with a line end differs from one without.
func lines(text string) []string { return strings.SplitAfter(text, "\n") }

// Number is the number in a word of a command such as 3, ru3, "bu3:" or "3,". It fails t at any other word.
func Number(t testing.TB, word string) int {
	t.Helper()
	digits := strings.TrimRight(strings.TrimLeft(word, "abcdefghijklmnopqrstuvwxyz"), ",:")
	n, err := strconv.ParseUint(digits, 10, strconv.IntSize-1)
	if err != nil {
		t.Fatalf("%q is no number: %v", word, err)
	}
	return int(n)
}
