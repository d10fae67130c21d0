package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Report is everything that ringlet doctor --json prints.
type Report struct {
	Worst  Level   `json:"worst"`
	Checks []Check `json:"checks"`
	Facts  Facts   `json:"facts"` // Judge can judge them again
}

// Failed names the checks that fail.
func (r Report) Failed() []string {
	var out []string
	for _, c := range r.Checks {
		if c.Level == Fail {
			out = append(out, c.Name)
		}
	}
	return out
}

// WriteTable writes a line for each check, and one more for its remedy.
func (r Report) WriteTable(w io.Writer) error {
	width := 0
	for _, c := range r.Checks {
		width = max(width, utf8.RuneCountInString(c.Name))
	}
	var b strings.Builder
	count := map[Level]int{}
	for _, c := range r.Checks {
		count[c.Level]++
		level := string(c.Level)
		if c.Level == Fail {
			level = "FAIL" // visible without colours
		}
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", level, width, c.Name, c.Found)
		if c.Remedy != "" {
			fmt.Fprintf(&b, "%7s  %-*s  → %s\n", "", width, "", c.Remedy)
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d could be better, %d failed, %d skipped\n", count[OK], count[Warn], count[Fail],
		count[Skipped])
	_, err := io.WriteString(w, b.String())
	return err
}
