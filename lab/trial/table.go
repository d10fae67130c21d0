package trial

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// NoFigure stands in place of a missing figure.
const NoFigure = "–"

// RowsOf makes a row of a table from each item.
func RowsOf[T any](all []T, cells func(*T) []string) [][]string {
	var rows [][]string
	for i := range all {
		rows = append(rows, cells(&all[i]))
	}
	return rows
}

// Table prints an indented table with its title and an empty line before it, or only the table if there is no title. It
// prints nothing if there are no rows.
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
