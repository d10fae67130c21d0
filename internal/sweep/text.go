package sweep

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the table of the page for a terminal: a line for each combination, medians with the least and the most of its runs, and behind it
// why runs failed.
func (s *Summary) WriteText(w io.Writer) error {
	p := pageOf(s.results)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(p.Table.Heads, "\t"))
	for _, row := range p.Table.Rows {
		cells := make([]string, len(row))
		for i, e := range row {
			if cells[i] = e.Text; e.Spread != "" {
				cells[i] += " (" + e.Spread + ")"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range p.Failures {
		if _, err := fmt.Fprintf(w, "FAILED %s, round %d: %s\n", f.Cell, f.Round, f.Why); err != nil {
			return err
		}
	}
	return nil
}
