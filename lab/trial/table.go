package trial

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// NoFigure stands where there is no figure.
const NoFigure = "–"

// RowsOf makes a row of a table of each.
func RowsOf[T any](all []T, cells func(*T) []string) [][]string {
	var rows [][]string
	for i := range all {
		rows = append(rows, cells(&all[i]))
	}
	return rows
}

// Table prints a titled table, indented, with a line before it; without a title neither. One without rows is left out.
func Table(w io.Writer, title string, head []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	indent := ""
	if title != "" {
		fmt.Fprintf(w, "\n%s\n", title)
		indent = "  "
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(t, indent+strings.Join(row, "\t"))
	}
	return t.Flush()
}
