package sweep

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"ringlet/lab/page"
	"ringlet/lab/trial"
)

// terminalColumns are the metrics for which a terminal has room; the page and the CSV have all.
var terminalColumns = []string{"Event rate, ", "Throughput, ", "Sent again, ", "Build latency, "}

// dropWideColumns drops the columns for which a terminal has no room. It keeps the columns up to "runs", which say what
// each combination sets, and those of terminalColumns.
func dropWideColumns(t *page.Table) {
	figure := slices.Index(t.Heads, "runs") + 1
	for i := len(t.Heads) - 1; i >= figure; i-- {
		if !slices.ContainsFunc(terminalColumns, func(head string) bool { return strings.HasPrefix(t.Heads[i], head) }) {
			t.Heads = slices.Delete(t.Heads, i, i+1)
			for r := range t.Rows {
				t.Rows[r] = slices.Delete(t.Rows[r], i, i+1)
			}
		}
	}
}

// WriteText writes the page's table for a terminal: a line for each combination, medians with the least and the most of
// its runs, and then the failures.
func (s *Summary) WriteText(w io.Writer) error {
	o := newPageData(s.results)
	dropWideColumns(&o.table)
	bounds := page.TextTable(trial.VerdictHead, trial.VerdictRows(o.verdicts()))
	if err := page.WriteText(w, []page.Section{{Table: o.table}, {Title: "Bounds", Table: bounds}}); err != nil {
		return err
	}
	for _, f := range o.failures {
		if _, err := fmt.Fprintf(w, "FAILED %s, round %d: %s\n", f.Cell, f.Round, f.Why); err != nil {
			return err
		}
	}
	return nil
}
