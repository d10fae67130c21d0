package transcript

import (
	"fmt"
	"strings"
)

// edit is one line of a comparison: ' ' is in both texts, '-' only in the written one, '+' only in the new one.
type edit struct {
	op   byte
	line string
}

// compare returns the fewest edits that turn the written lines into the new ones. Time and memory are proportional to
// the product of their numbers, without equal lines at the beginning: transcripts have some hundred.
func compare(written, now []string) []edit {
	var edits []edit
	for len(written) > 0 && len(now) > 0 && written[0] == now[0] {
		edits = append(edits, edit{' ', now[0]})
		written, now = written[1:], now[1:]
	}
	// common[i][j] is how many lines written[i:] and now[j:] share, in order.
	common := make([][]int, len(written)+1)
	for i := range common {
		common[i] = make([]int, len(now)+1)
	}
	for i := len(written) - 1; i >= 0; i-- {
		for j := len(now) - 1; j >= 0; j-- {
			if written[i] == now[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(written) || j < len(now) {
		switch {
		case i < len(written) && j < len(now) && written[i] == now[j]:
			edits = append(edits, edit{' ', now[j]})
			i, j = i+1, j+1
		case j == len(now) || i < len(written) && common[i+1][j] >= common[i][j+1]:
			edits = append(edits, edit{'-', written[i]})
			i++
		default:
			edits = append(edits, edit{'+', now[j]})
			j++
		}
	}
	return edits
}

// contextLines is how many equal lines are shown before and behind differing ones.
const contextLines = 3

// formatEdits prints the differing lines and those around them, with the line numbers of the written text.
func formatEdits(edits []edit) string {
	near := make([]bool, len(edits))
	for i, e := range edits {
		for k := max(i-contextLines, 0); e.op != ' ' && k <= min(i+contextLines, len(edits)-1); k++ {
			near[k] = true
		}
	}
	var out strings.Builder
	number := 0
	for i, e := range edits {
		label := ""
		if e.op != '+' {
			number++
			label = fmt.Sprint(number)
		}
		switch text, ended := strings.CutSuffix(e.line, "\n"); {
		case near[i] && ended:
			fmt.Fprintf(&out, "%5s %c %s\n", label, e.op, text)
		case near[i] && text != "":
			fmt.Fprintf(&out, "%5s %c %s (without a line end)\n", label, e.op, text)
		case !near[i] && i > 0 && near[i-1]:
			out.WriteString("      …\n")
		}
	}
	return out.String()
}
